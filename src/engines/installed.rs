//! Command-line agents as they are installed: where, and in which version.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant, SystemTime},
};

use parking_lot::Mutex;

use crate::{
    sandbox::process::SYSTEM_FOLDERS,
    settings::config::{Engines, Sdk},
};

/// A program that does not tell its version within this does not tell it. On a busy machine it takes long to start.
const VERSION_TIMEOUT: Duration = Duration::from_secs(30);

/// An agent that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    pub binary: PathBuf,
    /// None if it is of a kind that need not tell.
    pub version: Option<String>,
    /// What it needs to read beside the system's folders.
    pub shown: Vec<PathBuf>,
    /// Where it finds its interpreter, if that is not in a folder of the system.
    pub path: Vec<PathBuf>,
}

/// How long an agent that did not answer is not asked again: a busy machine may have been the reason.
const FAILURE_KNOWN_FOR: Duration = Duration::from_secs(60);

/// What is known of an agent by its file and arguments.
type Known = HashMap<(PathBuf, Vec<String>), Look>;

/// What a look at an agent found. It counts until the file changes; a failure, for a while.
#[derive(Debug)]
struct Look {
    changed: Option<SystemTime>,
    at: Instant,
    found: Result<Installed, String>,
}

impl Look {
    fn counts(&self, changed: Option<SystemTime>) -> bool {
        let is_fresh = self.found.is_ok() || self.at.elapsed() < FAILURE_KNOWN_FOR;
        self.changed == changed && is_fresh
    }
}

/// Finds agents.
#[derive(Debug, Default)]
pub struct Installations(Mutex<Known>);

/// An agent: its program, what it is always started with, the oldest version that will do, and how to get it.
struct About {
    program: String,
    args: Vec<String>,
    oldest: Option<[u64; 3]>,
    install: String,
}

fn about(sdk: Sdk, settings: &Engines) -> Result<About, String> {
    let known = |program: &str, oldest, package| About {
        program: program.to_owned(),
        args: Vec::new(),
        oldest: Some(oldest),
        install: format!("install it (`npm install -g {package}`) or set `engines.{sdk}.binary`"),
    };
    Ok(match sdk {
        Sdk::Native => return Err(format!("`{sdk}` is no command-line agent")),
        Sdk::Claude => known("claude", [2, 1, 197], "@anthropic-ai/claude-code"),
        Sdk::Codex => known("codex", [0, 166, 0], "@openai/codex"),
        Sdk::Pi => known("pi", [0, 73, 1], "@earendil-works/pi-coding-agent"),
        Sdk::Acp => {
            let Some((program, args)) = settings.acp.command.split_first() else {
                return Err("no agent is named; set `engines.acp.command`".to_owned());
            };
            About {
                program: program.clone(),
                args: args.to_vec(),
                oldest: None,
                install: "install it or change `engines.acp.command`".to_owned(),
            }
        }
    })
}

/// What to do to have an agent, in words for a person.
pub fn how(sdk: Sdk, settings: &Engines) -> String {
    about(sdk, settings).map_or_else(|unnamed| unnamed, |about| about.install)
}

impl Installations {
    /// Finds an agent: the file that the settings name, or one of its name where programs are. Blocks.
    ///
    /// An error says in words for a person what is missing, and what to do.
    pub fn find(&self, sdk: Sdk, settings: &Engines) -> Result<Installed, String> {
        let about = about(sdk, settings)?;
        let places = match settings.binary(sdk) {
            Some(named) if named.components().count() > 1 => vec![named.to_owned()],
            _ => places(&about.program),
        };
        let Some(found) = places.iter().find(|place| place.is_file()) else {
            let looked: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
            return Err(format!(
                "{} CLI not found; {}; looked for {}",
                about.program,
                about.install,
                looked.join(", "),
            ));
        };
        let changed = fs::metadata(found).and_then(|meta| meta.modified()).ok();
        let key = (found.clone(), about.args.clone());
        let known = self
            .0
            .lock()
            .get(&key)
            .filter(|look| look.counts(changed))
            .map(|look| look.found.clone());
        let installed = known.unwrap_or_else(|| {
            // Not under the lock: a program that hangs must not keep others from being found.
            let found = look_at(found, &about);
            let look = Look { changed, at: Instant::now(), found: found.clone() };
            self.0.lock().insert(key, look);
            found
        })?;
        about.is_new_enough(&installed)?;
        Ok(installed)
    }
}

impl About {
    fn is_new_enough(&self, installed: &Installed) -> Result<(), String> {
        let (Some(oldest), Some(version)) = (self.oldest, &installed.version) else {
            return Ok(());
        };
        if numbers(version).is_some_and(|version| version >= oldest) {
            return Ok(());
        }
        let (program, shown) = (&self.program, installed.binary.display());
        let oldest = oldest.map(|number| number.to_string()).join(".");
        Err(format!("{program} {version} is too old; {oldest} or newer is needed ({shown})"))
    }
}

/// Where a program may be.
fn places(program: &str) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Some(home) = std::env::var_os("HOME").map(PathBuf::from) {
        folders.extend([home.join(".local/bin"), home.join(".claude/local")]);
    }
    folders.into_iter().map(|folder| folder.join(program)).collect()
}

fn look_at(found: &Path, about: &About) -> Result<Installed, String> {
    let shown = found.display();
    let binary = found.canonicalize().map_err(|error| format!("{shown}: {error}"))?;
    let mut installed = Installed { version: None, shown: Vec::new(), path: Vec::new(), binary };
    let mut needed = vec![package(&installed.binary)];
    // An interpreter is told which script to run.
    let named = about.args.iter().map(Path::new).filter(|path| path.is_absolute());
    needed.extend(named.filter_map(|path| path.canonicalize().ok()).map(|path| package(&path)));
    if is_script_of_node(&installed.binary) {
        let beside = found.parent().map(|folder| folder.join("node"));
        let node =
            beside.into_iter().chain(places("node")).find_map(|place| place.canonicalize().ok());
        let node = node.ok_or_else(|| format!("{shown} needs `node`, which is not found"))?;
        installed.path.extend(node.parent().map(Path::to_owned));
        needed.push(node);
    }
    let is_outside = |path: &PathBuf| !SYSTEM_FOLDERS.iter().any(|folder| path.starts_with(folder));
    installed.shown = needed.into_iter().filter(is_outside).collect();
    installed.version = version(&installed, &about.args);
    if about.oldest.is_some() && installed.version.is_none() {
        return Err(format!("{shown} does not tell its version"));
    }
    Ok(installed)
}

/// The folder of packages that a program stands in; itself, if it stands alone.
fn package(binary: &Path) -> PathBuf {
    let mut above = binary.ancestors().skip(1).collect::<Vec<_>>();
    above.reverse();
    let packages = above.into_iter().find(|folder| folder.ends_with("node_modules"));
    packages.unwrap_or(binary).to_owned()
}

fn is_script_of_node(binary: &Path) -> bool {
    let mut first = [0; 64];
    let read = File::open(binary).and_then(|mut file| file.read(&mut first)).unwrap_or_default();
    let first = first[..read].split(|byte| *byte == b'\n').next().unwrap_or_default();
    first.starts_with(b"#!") && first.ends_with(b"node")
}

/// What a program says of its version: the first word with two dots. One that was killed is asked once more.
fn version(installed: &Installed, args: &[String]) -> Option<String> {
    let (status, mut said) = ask_version(installed, args)?;
    if status.signal().is_some() {
        said = ask_version(installed, args)?.1;
    }
    let mut words = said.split_whitespace();
    words.find(|word| numbers(word).is_some()).map(str::to_owned)
}

fn ask_version(installed: &Installed, args: &[String]) -> Option<(ExitStatus, String)> {
    let system = std::env::var_os("PATH").unwrap_or_default();
    let path = installed.path.iter().cloned().chain(std::env::split_paths(&system));
    // Some say it on the one stream, some on the other.
    let (mut answer, stream) = io::pipe().ok()?;
    let mut child = Command::new(&installed.binary)
        .args(args)
        .arg("--version")
        .env_clear()
        .env("PATH", std::env::join_paths(path).ok()?)
        // It writes nothing there.
        .env("HOME", "/dev/null")
        .stdin(Stdio::null())
        .stdout(stream.try_clone().ok()?)
        .stderr(stream)
        .spawn()
        .ok()?;
    let deadline = Instant::now() + VERSION_TIMEOUT;
    let status = loop {
        if let Some(status) = child.try_wait().ok()? {
            break status;
        }
        if Instant::now() > deadline {
            // It may have ended just now.
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let mut said = String::new();
    answer.by_ref().take(4_096).read_to_string(&mut said).ok()?;
    Some((status, said))
}

/// The three numbers of a version.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let plain = version.split(['-', '+']).next()?;
    let mut parts = plain.split('.').map(|part| part.parse().ok());
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;

    use super::*;

    fn program(folder: &TempDir, text: &str) -> PathBuf {
        let path = folder.path().join("claude");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn claude(binary: &Path) -> Engines {
        let mut settings = Engines::default();
        settings.claude.binary = Some(binary.to_owned());
        settings
    }

    fn acp(command: &[&str]) -> Engines {
        let mut settings = Engines::default();
        settings.acp.command = command.iter().map(|part| (*part).to_owned()).collect();
        settings
    }

    /// EN-96
    #[test]
    fn an_agent_is_used_if_it_is_new_enough() {
        let folder = tempfile::tempdir().unwrap();
        let found = Installations::default();
        let new = program(&folder, "#!/bin/sh\necho '2.1.325 (Claude Code)'\n");

        let installed = found.find(Sdk::Claude, &claude(&new)).unwrap();

        assert_eq!(installed.version.as_deref(), Some("2.1.325"));
        assert_eq!(installed.shown, std::slice::from_ref(&new));

        program(&folder, "#!/bin/sh\necho '2.1.100 (Claude Code)'\n");
        fs::File::open(&new).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let error = found.find(Sdk::Claude, &claude(&new)).unwrap_err();
        assert!(
            error.starts_with("claude 2.1.100 is too old; 2.1.197 or newer is needed"),
            "{error}"
        );
    }

    /// EN-96: an end that it has from outside says nothing of its version.
    #[test]
    fn an_agent_that_is_killed_is_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        let once = folder.path().join("once").display().to_string();
        let text =
            format!("#!/bin/sh\n[ -e {once} ] && echo 2.1.325 && exit\n: > {once}\nkill -9 $$\n");
        let agent = program(&folder, &text);

        let installed = Installations::default().find(Sdk::Claude, &claude(&agent)).unwrap();

        assert_eq!(installed.version.as_deref(), Some("2.1.325"));
    }

    /// EN-96: whoever asks again soon does not wait again.
    #[test]
    fn an_agent_that_tells_no_version_is_not_asked_at_once_again() {
        let folder = tempfile::tempdir().unwrap();
        let asked = folder.path().join("asked");
        let agent = program(&folder, &format!("#!/bin/sh\necho x >> {}\n", asked.display()));
        let found = Installations::default();

        let answers = [(); 2].map(|()| found.find(Sdk::Claude, &claude(&agent)).unwrap_err());

        assert!(answers.iter().all(|answer| answer.ends_with("does not tell its version")));
        assert_eq!(fs::read_to_string(asked).unwrap(), "x\n");
    }

    /// OP-77: an agent that hangs holds up nobody who asks for another.
    #[test]
    fn an_agent_that_hangs_does_not_keep_others_from_being_found() {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [begun, go] = ["begun", "go"].map(|name| folders[0].path().join(name));
        for pipe in [&begun, &go] {
            let made = Command::new("mkfifo").arg(pipe).status().unwrap();
            assert!(made.success());
        }
        let text = format!(
            "#!/bin/sh\necho > {}\nread go < {}\necho 2.1.325\n",
            begun.display(),
            go.display()
        );
        let (hanging, other) =
            (program(&folders[0], &text), program(&folders[1], "#!/bin/sh\necho 2.1.326\n"));
        let found = Installations::default();

        let (held, other) = std::thread::scope(|scope| {
            let held = scope.spawn(|| found.find(Sdk::Claude, &claude(&hanging)));
            // There is something to read once it runs.
            fs::read(&begun).unwrap();
            let other = found.find(Sdk::Claude, &claude(&other)).unwrap();
            fs::write(&go, "\n").unwrap();
            (held.join().unwrap(), other)
        });

        assert_eq!(other.version.as_deref(), Some("2.1.326"));
        // It was let go before its time was over.
        assert_eq!(held.unwrap().version.as_deref(), Some("2.1.325"));
    }

    /// EN-96
    #[test]
    fn an_agent_that_is_missing_is_named_with_what_to_do() {
        let mut settings = Engines::default();
        settings.codex.binary = Some("/no/codex".into());

        let error = Installations::default().find(Sdk::Codex, &settings).unwrap_err();

        assert_eq!(
            error,
            "codex CLI not found; install it (`npm install -g @openai/codex`) or set `engines.codex.binary`; looked for \
             /no/codex"
        );
    }

    /// Any agent will do, also one that tells no version; its interpreter is told which script to run.
    #[test]
    fn an_agent_of_the_operator_is_found_by_its_command() {
        let folder = tempfile::tempdir().unwrap();
        let script = program(&folder, "[ \"$1\" = --acp ] && echo \"agent 1.2.3\"\n");
        let script = script.to_str().unwrap();
        let found = Installations::default();

        let with_version = found.find(Sdk::Acp, &acp(&["sh", script, "--acp"])).unwrap();
        let without = found.find(Sdk::Acp, &acp(&["sh", script])).unwrap();
        let missing = found.find(Sdk::Acp, &acp(&["/no/agent", "--acp"])).unwrap_err();
        let unnamed = found.find(Sdk::Acp, &Engines::default()).unwrap_err();

        assert_eq!(with_version.version.as_deref(), Some("1.2.3"));
        assert_eq!(with_version.shown, [Path::new(script)]);
        assert_eq!(without.version, None);
        assert_eq!(
            missing,
            "/no/agent CLI not found; install it or change `engines.acp.command`; looked for /no/agent"
        );
        assert_eq!(unnamed, "no agent is named; set `engines.acp.command`");
    }

    #[test]
    fn a_package_is_shown_whole() {
        let path = "/opt/x/node_modules/@openai/codex/node_modules/y/bin/codex.js";

        assert_eq!(package(Path::new(path)), Path::new("/opt/x/node_modules"));
        assert_eq!(package(Path::new("/opt/bin/claude")), Path::new("/opt/bin/claude"));
    }
}
