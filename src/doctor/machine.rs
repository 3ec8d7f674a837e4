//! The machine: who can read what, the sandbox, the disk, the clock.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{Duration, SystemTime},
};

use crate::{
    api::doctor::Finding,
    removal::TemporaryFolder,
    sandbox::{
        process::{Sandbox, SandboxSettings, layers::Layer, probe::LayerReport},
        quota,
    },
    settings::{
        config::{self, Config},
        home::Home,
    },
    text::rough_size,
};

/// With less than this the store may not be able to write for long.
const LITTLE_SPACE: u64 = 1 << 30;
/// With less than this it cannot be expected to.
const NO_SPACE: u64 = 64 << 20;
/// 2026-01-01: this program is younger, so a clock before it is wrong.
const BIRTH: Duration = Duration::from_secs(1_767_225_600);
/// File times may be ahead by so much without anything being wrong.
const AHEAD: Duration = Duration::from_secs(120);

/// Secrets and the store must be closed to other users.
pub fn modes(home: &Home) -> Vec<Finding> {
    let secrets = home.secrets();
    let mut closed = vec![home.store(), secrets.clone()];
    if let Ok(entries) = fs::read_dir(&secrets) {
        closed.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
    }
    let open: Vec<_> = closed.iter().filter_map(|path| opened(path)).collect();
    if open.is_empty() {
        vec![Finding::ok("modes", "secrets and store are closed to others")]
    } else {
        open
    }
}

fn opened(path: &Path) -> Option<Finding> {
    let found = fs::metadata(path).ok()?;
    let wanted = if found.is_dir() { "700" } else { "600" };
    (found.permissions().mode() & 0o077 != 0).then(|| {
        let path = path.display();
        let message = format!("{path} is open to other users of this machine");
        Finding::error("modes", message, format!("chmod {wanted} {path}"))
    })
}

/// Tries the sandbox with a real child process.
pub async fn sandbox(home: &Home, config: Option<&Config>) -> Vec<Finding> {
    let id = "sandbox";
    let launcher = match std::env::current_exe() {
        Ok(launcher) => launcher,
        Err(error) => {
            let message = format!("was not tried, since this program cannot be found: {error}");
            return vec![Finding::error(id, message, "install it anew")];
        }
    };
    let sandbox = config.map_or_else(config::Sandbox::default, |config| config.sandbox.clone());
    // Not the one that the service uses and empties.
    let scratch = match TemporaryFolder::new("doctor") {
        Ok(scratch) => scratch,
        Err(error) => {
            let message = format!("was not tried, since no folder can be made for it: {error}");
            return vec![Finding::error(
                id,
                message,
                "make room for temporary files, or set TMPDIR",
            )];
        }
    };
    let settings = SandboxSettings {
        launcher,
        memory: sandbox.memory.0,
        scratch: scratch.path().to_owned(),
        private: vec![home.store(), home.secrets()]
            .into_iter()
            .filter(|path| path.exists())
            .collect(),
    };
    let sandbox = Sandbox::new(settings).await;
    let reports = sandbox.probe().await;
    let groups = groups(id, sandbox.groups());
    reports.into_iter().map(|report| layer(id, report)).chain([groups]).collect()
}

/// Commands are bounded without control groups too, so their absence is no fault.
fn groups(id: &'static str, found: Result<String, &str>) -> Finding {
    let message = match found {
        Ok(bounds) => format!("control group: {bounds}"),
        Err(reason) => format!(
            "control group: none ({reason}); limits of each process and a sweep bound commands"
        ),
    };
    Finding::ok(id, message)
}

fn layer(id: &'static str, report: LayerReport) -> Finding {
    let LayerReport { layer, holds, detail } = report;
    let message = format!("{layer}: {detail}");
    match (holds, layer) {
        (true, _) => Finding::ok(id, message),
        // Commands run without, where the kernel offers enough else.
        (false, Layer::Namespaces) => Finding::warn(id, message, layer.cure()),
        (false, _) => Finding::error(id, message, layer.cure()),
    }
}

/// Room for the store to grow.
pub fn disk(home: &Home) -> Vec<Finding> {
    let id = "disk";
    let run = home.run();
    // Before the first start the run dir is not there.
    let place = run.ancestors().find(|path| path.exists()).unwrap_or(run);
    vec![quota::free(place).map_or_else(
        |error| {
            let message = format!("{} cannot be looked at: {error}", place.display());
            Finding::warn(id, message, "check the file system")
        },
        |free| space(free, place),
    )]
}

fn space(free: u64, place: &Path) -> Finding {
    let id = "disk";
    let place = place.display();
    let message = format!("{} free in {place}", rough_size(free));
    match free {
        ..NO_SPACE => Finding::error(id, message, format!("make room in {place}")),
        NO_SPACE..LITTLE_SPACE => Finding::warn(id, message, format!("make room in {place}")),
        _ => Finding::ok(id, message),
    }
}

/// The time of day must be plausible: tokens and deadlines depend on it.
pub fn clock(home: &Home) -> Vec<Finding> {
    let newest = fs::read_dir(home.store())
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.metadata().ok()?.modified().ok())
        .max();
    vec![time(SystemTime::now(), newest)]
}

fn time(now: SystemTime, newest: Option<SystemTime>) -> Finding {
    let id = "clock";
    let fix = "set the clock, and keep it set with NTP";
    if now < SystemTime::UNIX_EPOCH + BIRTH {
        return Finding::error(id, "is years behind", fix);
    }
    match newest.and_then(|newest| newest.duration_since(now).ok()) {
        Some(ahead) if ahead > AHEAD => {
            let message = format!("the store was written {} s in the future", ahead.as_secs());
            Finding::warn(id, message, fix)
        }
        _ => Finding::ok(id, "is plausible"),
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    /// OP-76
    #[test]
    fn little_space_is_a_warning_and_none_an_error() {
        let place = Path::new("/run");

        let found = [2 << 30, 1 << 29, 1 << 20].map(|free| space(free, place));

        let expected = [
            Finding::ok("disk", "2.0 GiB free in /run"),
            Finding::warn("disk", "512.0 MiB free in /run", "make room in /run"),
            Finding::error("disk", "1.0 MiB free in /run", "make room in /run"),
        ];
        assert_eq!(found, expected);
    }

    /// OP-76
    #[test]
    fn a_clock_that_went_back_is_noticed() {
        let now = SystemTime::UNIX_EPOCH + BIRTH + Duration::from_secs(1_000);
        let fix = "set the clock, and keep it set with NTP";

        let found = [
            time(SystemTime::UNIX_EPOCH, None),
            time(now, Some(now + Duration::from_secs(600))),
            time(now, Some(now)),
        ];

        let expected = [
            Finding::error("clock", "is years behind", fix),
            Finding::warn("clock", "the store was written 600 s in the future", fix),
            Finding::ok("clock", "is plausible"),
        ];
        assert_eq!(found, expected);
    }
}
