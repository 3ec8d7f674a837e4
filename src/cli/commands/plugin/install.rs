//! `hivewright plugin install`: an archive or a folder is shown to the service, and installed once a person agreed.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::json;

use super::look::asked;
use crate::{
    api::plugins::{CHECK_PLUGIN, INSTALL_PLUGIN, PluginArchive, PluginPreview},
    cli::{
        client::Service, context::Context, failure::Failure, prompt::confirm, screen::printable,
    },
    plugins::{archive, check::check_key, digest::MOST_BYTES},
};

#[derive(Debug, PartialEq, Args)]
pub(in crate::cli) struct Install {
    /// A folder, a .tar.gz or .zip archive, or an https address
    #[arg(value_name = "SOURCE", required_unless_present = "mcp", conflicts_with = "mcp")]
    source: Option<String>,
    /// The SHA-256 of what is at the address
    #[arg(long, value_name = "HEX")]
    sha256: Option<String>,
    /// Make a plugin of an MCP server that speaks on its standard streams, under this name
    #[arg(long, value_name = "NAME", requires = "command")]
    mcp: Option<String>,
    /// A folder that the MCP server sees, such as the one it is installed in
    #[arg(long, value_name = "DIR", requires = "mcp")]
    read: Vec<PathBuf>,
    /// The command of the MCP server
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(super) async fn run(
    install: Install,
    service: &Service,
    context: &Context,
) -> Result<(), Failure> {
    let (query, bytes) = archive(&install)?;
    let preview = service.hand_in(&CHECK_PLUGIN, &query, bytes.clone()).await?.data()?;
    let shown = in_words(&preview);
    if context.yes {
        context.screen.remark(shown.trim_end());
    }
    confirm(context, &shown, "Agree and install it?")?;
    let query = PluginArchive { digest: Some(preview.digest), ..query };
    let installed = service.hand_in(&INSTALL_PLUGIN, &query, bytes).await?;
    installed.tell(context.screen, |row| {
        format!("installed {} {}; no team has it before it is enabled there", row.key, row.version)
    })
}

/// What is sent: where an archive is, or its bytes.
fn archive(install: &Install) -> Result<(PluginArchive, Vec<u8>), Failure> {
    if let Some(name) = &install.mcp {
        let text = mcp_manifest(name, &install.command, &install.read)?;
        let packed = archive::pack_manifest(&text)
            .map_err(|error| Failure::system("the plugin cannot be packed", error))?;
        let source = Some(format!("an MCP server: {}", install.command.join(" ")));
        return Ok((PluginArchive { source, ..PluginArchive::default() }, packed));
    }
    let source = install.source.clone().unwrap_or_default();
    if source.contains("://") {
        if install.sha256.is_none() {
            return Err(Failure::usage("an address needs `--sha256` of what is there"));
        }
        let query = PluginArchive {
            url: Some(source),
            sha256: install.sha256.clone(),
            ..PluginArchive::default()
        };
        return Ok((query, Vec::new()));
    }
    if install.sha256.is_some() {
        return Err(Failure::usage("`--sha256` is for addresses"));
    }
    let path = Path::new(&source);
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Failure::not_found(format!(
            "there is no file or folder `{source}`; name an archive, a folder with a `plugin.toml`, or an https address"
        )),
        _ => Failure::unreadable(path)(error),
    };
    let about = fs::metadata(path).map_err(unreadable)?;
    if about.len() > MOST_BYTES && about.is_file() {
        return Err(Failure::usage(format!("`{source}` is larger than 50 MiB")));
    }
    let bytes = if about.is_dir() { archive::pack(path) } else { fs::read(path) };
    let bytes = bytes.map_err(unreadable)?;
    Ok((PluginArchive { source: Some(source), ..PluginArchive::default() }, bytes))
}

fn in_words(preview: &PluginPreview) -> String {
    let PluginPreview {
        key,
        version,
        description,
        digest,
        signed_by,
        asks,
        installed,
        beyond,
        skills,
        ..
    } = preview;
    let mut text = format!("{key} {version}: {}\ndigest {digest}\n", printable(description));
    text.push_str(&match signed_by {
        Some(name) => format!("Signed by {}.\n", printable(name)),
        None => "No key that is trusted here has signed it.\n".to_owned(),
    });
    match installed {
        Some(installed) if beyond.is_empty() => {
            text.push_str(&format!("It takes the place of {installed}, and asks for no more.\n"));
        }
        Some(installed) => {
            text.push_str(&format!("It takes the place of {installed}, and asks for more:\n"));
            text.push_str(&asked(beyond));
        }
        None => {}
    }
    text.push_str("It asks for:\n");
    text.push_str(&asked(asks));
    if !skills.is_empty() {
        text.push_str(
            "It brings skills, which count once they are copied to `skills` of the data dir:\n",
        );
        text.push_str(&asked(skills));
    }
    text
}

/// The manifest of an MCP server.
fn mcp_manifest(name: &str, command: &[String], read: &[PathBuf]) -> Result<String, Failure> {
    check_key(name).map_err(|fault| Failure::usage(format!("`{name}`: {}", fault.reason)))?;
    let (program, args) = command.split_first().ok_or_else(|| {
        Failure::usage("the command of the MCP server is missing: say it behind `--`")
    })?;
    // A program that lies elsewhere is run by one that does not.
    let (program, args) = if program.starts_with('/') {
        ("env", command)
    } else if program.contains('/') {
        return Err(Failure::usage(format!(
            "`{program}`: say the whole path, or the name of a program of the system"
        )));
    } else {
        (program.as_str(), args)
    };
    let read: Result<Vec<String>, Failure> = read
        .iter()
        .map(|folder| {
            let real = fs::canonicalize(folder);
            let real =
                real.map_err(|error| Failure::system(format!("`{}`", folder.display()), error))?;
            Ok(real.display().to_string())
        })
        .collect();
    let namespace: String = name.chars().filter(|c| *c != '-').take(24).collect();
    // Texts of TOML are written as those of JSON are.
    let text = |text: &str| json!(text).to_string();
    Ok(format!(
        "manifest_version = 1\nkey = {}\nversion = \"1.0.0\"\ndisplay_name = {}\n\
         description = \"An MCP server, as it is.\"\n\n[run]\nkind = \"process\"\nprotocol = \"mcp\"\n\
         command = {}\nargs = {}\n\n[tools]\nnamespace = {}\n\n[limits]\nstart_timeout = \"60s\"\n\n\
         [sandbox]\nread = {}\n",
        text(name),
        text(name),
        text(program),
        json!(args),
        text(&namespace),
        json!(read?),
    ))
}
