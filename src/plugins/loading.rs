//! Loading of packages: each is looked over without running any of it, and again before it is started.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    check::{check, fault, inside},
    digest::{self, Extent},
    fault::{Fault, FaultCode},
    manifest::{ChannelWebhook, MANIFEST, Manifest, SchemaSource},
    package::{Files, Origin, Package},
    schema::Schema,
};

const LARGEST_MANIFEST: u64 = 64 << 10;
/// Where a bare name of a program is looked for.
const PROGRAM_PATH: [&str; 3] = ["/usr/bin", "/bin", "/usr/local/bin"];

impl Package {
    /// Looks a package over. It blocks.
    pub fn load(files: Files, origin: Origin) -> Result<Self, Fault> {
        let manifest = read_manifest(&files)?;
        check_program(&manifest, &files)?;
        let schema = read_schema(&manifest, &files)?;
        if let Some(webhook) = manifest.channel.as_ref().and_then(|it| it.webhook.as_ref()) {
            check_secret_field(webhook, &schema)?;
        }
        let digest = String::new();
        let package = Self { manifest, files, digest, origin, signer: None, schema, fault: None };
        let digest = package.digest_now()?;
        Ok(Self { digest, ..package })
    }

    /// The digest of the files as they are now. It blocks.
    pub fn digest_now(&self) -> Result<String, Fault> {
        let extent = match self.origin {
            Origin::Development => Extent::Sources,
            Origin::Shipped | Origin::Installed => Extent::Whole,
        };
        digest::of(&self.files, extent)
            .map_err(|error| Fault::new(FaultCode::PathEscape, ".", "", error.to_string()))
    }

    /// Checks before each start that the files are those that were loaded. It blocks.
    pub fn verify(&self) -> Result<(), Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let is_agreed = || self.digest_now().is_ok_and(|digest| digest == self.digest);
        if self.origin == Origin::Development || is_agreed() { Ok(()) } else { Err(changed()) }
    }

    /// The modules of a `js` plugin by path, the entry among them. It blocks.
    pub fn sources(&self) -> io::Result<BTreeMap<String, String>> {
        let listed = digest::list(&self.files, Extent::Sources)?;
        let is_source = |path: &str| path.ends_with(".js") || path.ends_with(".mjs");
        let paths = listed.into_iter().map(|file| file.path).filter(|path| is_source(path));
        let read = |path: String| {
            let text = String::from_utf8(self.files.read(&path)?)
                .map_err(|_| io::Error::other(format!("`{path}` is no text")))?;
            Ok((path, text))
        };
        paths.map(read).collect()
    }
}

/// The fault of files that are not those that were agreed to.
pub(super) fn changed() -> Fault {
    let reason = "its files are not those that were agreed to; `hivewright plugin approve` agrees to them as they are";
    Fault::new(FaultCode::DigestMismatch, ".", "", reason)
}

/// The fault of a folder without a manifest.
pub(super) fn missing() -> Fault {
    fault(FaultCode::ManifestMissing, "", "there is no such file")
}

fn read_manifest(files: &Files) -> Result<Manifest, Fault> {
    let content = files.read(MANIFEST).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => missing(),
        _ => fault(FaultCode::ManifestInvalid, "", error.to_string()),
    })?;
    if content.len() as u64 > LARGEST_MANIFEST {
        return Err(fault(FaultCode::ManifestInvalid, "", "is larger than 64 KiB"));
    }
    let text = String::from_utf8(content)
        .map_err(|_| fault(FaultCode::ManifestInvalid, "", "is no UTF-8 text"))?;
    let manifest = Manifest::parse(&text)?;
    check(&manifest)?;
    Ok(manifest)
}

/// What is run is there, and in the folder.
fn check_program(manifest: &Manifest, files: &Files) -> Result<(), Fault> {
    let lacks = |field: &str, reason: String| fault(FaultCode::EntryMissing, field, reason);
    if let Some(entry) = &manifest.run.entry {
        let reason = |error: io::Error| lacks("run.entry", format!("`{entry}`: {error}"));
        files.read(entry).map_err(reason)?;
        return stays_inside("run.entry", entry, files);
    }
    let Some(command) = &manifest.run.command else { return Ok(()) };
    let field = "run.command";
    let (is_there, reason) = match files.folder() {
        Some(folder) if command.contains('/') => {
            stays_inside(field, command, files)?;
            (is_program(&folder.join(command)), "is not a file that can be run".to_owned())
        }
        _ => (find_program(command).is_some(), format!("is not in {}", PROGRAM_PATH.join(", "))),
    };
    if is_there { Ok(()) } else { Err(lacks(field, format!("`{command}` {reason}"))) }
}

/// A program of the system by its bare name. It blocks.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    let mut places = PROGRAM_PATH.iter().map(|folder| Path::new(folder).join(name));
    places.find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

/// A path leads to something in the folder, links followed.
fn stays_inside(field: &str, path: &str, files: &Files) -> Result<(), Fault> {
    inside(field, path)?;
    let Some(folder) = files.folder() else { return Ok(()) };
    let real = |path: &Path| fs::canonicalize(path).ok();
    match (real(folder), real(&folder.join(path))) {
        (Some(folder), Some(path)) if !path.starts_with(&folder) => {
            Err(fault(FaultCode::PathEscape, field, "a link leads out of the plugin's folder"))
        }
        _ => Ok(()),
    }
}

fn read_schema(manifest: &Manifest, files: &Files) -> Result<Schema, Fault> {
    let field = "config.schema";
    let (file, json) = match &manifest.config.schema {
        None => return Ok(Schema::default()),
        Some(SchemaSource::Inline(json)) => (MANIFEST, json.clone()),
        Some(SchemaSource::File(path)) => {
            stays_inside(field, path, files)?;
            let wrong = |error: String| Fault::new(FaultCode::SchemaInvalid, path, "", error);
            let content = files.read(path).map_err(|error| wrong(error.to_string()))?;
            let json: Value =
                serde_json::from_slice(&content).map_err(|error| wrong(error.to_string()))?;
            (path.as_str(), json)
        }
    };
    Schema::new(json).map_err(|error| {
        let field = if file == MANIFEST { field } else { "" };
        Fault::new(
            FaultCode::SchemaInvalid,
            file,
            format!("{field}{}", error.pointer),
            error.reason,
        )
    })
}

fn check_secret_field(webhook: &ChannelWebhook, schema: &Schema) -> Result<(), Fault> {
    let Some(name) = &webhook.secret_field else { return Ok(()) };
    let pointer = format!("/channel/{name}");
    if schema.secrets().contains(&pointer) {
        return Ok(());
    }
    let reason = format!("`config.schema` has no secret field `{pointer}`");
    Err(fault(FaultCode::ManifestInvalid, "channel.webhook.secret_field", reason))
}
