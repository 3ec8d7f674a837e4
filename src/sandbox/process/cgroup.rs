//! Control groups (cgroup v2): the kernel's own bounds for a command with all it starts.
//!
//! Used where the service may make groups beside its own: in the root group, or in one that systemd has
//! delegated with the service in a group of its own below (`Delegate=yes`, `DelegateSubgroup=service`). Nothing
//! that runs is ever moved. Limits per process, the sweep and the kill of the tree hold everywhere else, and
//! here as well.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use hivewright_actors::blocking;

/// The group of the service where systemd delegates.
const SERVICE: &str = "service";
/// How the groups of commands begin; the number of the service's process follows.
const CALL: &str = "hivewright-";
/// What is asked of the kernel, where it has it.
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];
/// The period of `cpu.max`, in microseconds.
const PERIOD: usize = 100_000;
/// How often a group is tried to be removed whose processes are still being buried.
const TRIES: u32 = 50;

/// Where groups of commands are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Groups {
    base: PathBuf,
    controllers: Vec<&'static str>,
}

impl Groups {
    /// Finds a place, or says why there is none. Blocks.
    pub(super) fn find() -> Result<Self, String> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let base = place(&own, &mounts)?;
        let groups = Self { controllers: enable(&base), base };
        groups.clear();
        let tried = groups.make(u64::MAX >> 1, 1);
        tried.map_err(|error| format!("{}: {error}", groups.base.display()))?;
        Ok(groups)
    }

    /// What it bounds, in words.
    pub(super) fn bounds(&self) -> String {
        match self.controllers.as_slice() {
            [] => {
                "ends what commands start; memory and processes are bounded without it, since the \
                   kernel has given its controllers to cgroup v1"
                    .to_owned()
            }
            controllers => {
                format!("bounds {} of commands, and ends what they start", controllers.join(", "))
            }
        }
    }

    /// Makes a group for a command that may use so much.
    pub(super) fn make(&self, memory: u64, processes: u64) -> io::Result<Group> {
        let bits = getrandom::u64().map_err(io::Error::other)?;
        let name = format!("{CALL}{}-{bits:016x}", std::process::id());
        let path = self.base.join(name);
        fs::create_dir(&path)?;
        let group = Group { path };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // One core is left to the service.
        let cpu = PERIOD * (cores - 1).max(1);
        for controller in &self.controllers {
            let limits: &[(&str, String)] = match *controller {
                "memory" => {
                    &[("memory.max", memory.to_string()), ("memory.oom.group", "1".to_owned())]
                }
                "pids" => &[("pids.max", processes.to_string())],
                _ => &[("cpu.max", format!("{cpu} {PERIOD}"))],
            };
            for (file, value) in limits {
                fs::write(group.path.join(file), value)?;
            }
        }
        // Only where there is swap to account for.
        let _ = fs::write(group.path.join("memory.swap.max"), "0");
        Ok(group)
    }

    /// Removes groups of processes that are gone, with what is left in them.
    fn clear(&self) {
        for entry in fs::read_dir(&self.base).into_iter().flatten().flatten() {
            let maker = entry.file_name().to_str().and_then(maker);
            if maker.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                end(&entry.path());
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

/// A group, gone with this.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) path: PathBuf,
}

impl Drop for Group {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.path);
        blocking::clean_up(move || {
            end(&path);
            for _ in 0..TRIES {
                match fs::remove_dir(&path) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    _ => return,
                }
            }
            tracing::debug!(path = %path.display(), "control group stays until the next start");
        });
    }
}

/// Moves this process into a group, with all that it starts from now on.
pub(super) fn enter(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), "0")
}

/// Kills all that is in a group, also what is being started.
pub(super) fn end(group: &Path) {
    // An empty group has nothing to kill, and one that is gone neither.
    let _ = fs::write(group.join("cgroup.kill"), "1");
}

/// The kernel killed the group for its memory.
pub(super) fn ran_out_of_memory(group: &Path) -> bool {
    let events = fs::read_to_string(group.join("memory.events")).unwrap_or_default();
    events
        .lines()
        .any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count.trim() != "0"))
}

/// The folder where groups may be made, by the group of this process and what is mounted.
fn place(own: &str, mounts: &str) -> Result<PathBuf, String> {
    let own = own.lines().find_map(|line| line.strip_prefix("0::"));
    let own = own.ok_or("this kernel has no cgroup v2")?;
    // `… ROOT POINT OPTIONS … - TYPE SOURCE …`
    let mounted = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let point = before.split(' ').nth(4)?;
        after.starts_with("cgroup2 ").then(|| PathBuf::from(point))
    });
    let mounted = mounted.ok_or("cgroup v2 is not mounted")?;
    let own = own.trim_start_matches('/');
    if own.is_empty() {
        return Ok(mounted);
    }
    match Path::new(own).parent() {
        Some(above) if own.ends_with(&format!("/{SERVICE}")) => Ok(mounted.join(above)),
        _ => Err(format!(
            "`/{own}` holds this process and is not delegated; `Delegate=yes` and `DelegateSubgroup={SERVICE}` in \
             the unit of systemd (254 or newer) do that"
        )),
    }
}

/// Hands the controllers down to the groups below. Returns those that are there.
fn enable(base: &Path) -> Vec<&'static str> {
    let control = base.join("cgroup.subtree_control");
    for controller in CONTROLLERS {
        // One that is not there is seen below.
        let _ = fs::write(&control, format!("+{controller}"));
    }
    let handed = fs::read_to_string(control).unwrap_or_default();
    let is_handed = |name: &&'static str| handed.split_whitespace().any(|handed| handed == *name);
    CONTROLLERS.into_iter().filter(is_handed).collect()
}

/// Whose group it is, by its name.
fn maker(name: &str) -> Option<u32> {
    name.strip_prefix(CALL)?.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests {

    use std::process::{Command, Stdio};

    use super::*;

    const MOUNTS: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n\
                          31 23 0:27 / /proc rw - proc proc rw\n";

    /// SC-54
    #[test]
    fn groups_are_made_only_where_nothing_has_to_be_moved() {
        let found = ["0::/\n", "1:cpu:/x\n0::/system.slice/hivewright.service/service\n"]
            .map(|own| place(own, MOUNTS));
        let shared = place("0::/user.slice/session-1.scope\n", MOUNTS);
        let none = [place("0::/\n", "31 23 0:27 / /proc rw - proc proc rw\n"), place("", MOUNTS)];

        let expected = ["/sys/fs/cgroup", "/sys/fs/cgroup/system.slice/hivewright.service"]
            .map(|path| Ok(PathBuf::from(path)));
        assert_eq!(found, expected);
        assert!(shared.unwrap_err().contains("DelegateSubgroup=service"));
        assert!(none.iter().all(Result::is_err));
    }

    /// SC-54: against a folder that looks like a group: what is written where.
    #[test]
    fn a_group_is_bound_by_the_controllers_that_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let groups = Groups { base: folder.path().to_owned(), controllers: CONTROLLERS.to_vec() };

        let group = groups.make(1 << 20, 256).unwrap();

        let read = |file: &str| fs::read_to_string(group.path.join(file)).unwrap();
        assert_eq!(
            ["memory.max", "memory.oom.group", "pids.max"].map(read),
            ["1048576", "1", "256"]
        );
        assert!(read("cpu.max").ends_with(" 100000"));
        let name = group.path.file_name().unwrap().to_str().unwrap();
        assert_eq!(maker(name), Some(std::process::id()));
        fs::write(group.path.join("memory.events"), "low 0\noom 1\noom_kill 0\n").unwrap();
        assert!(!ran_out_of_memory(&group.path));
        fs::write(group.path.join("memory.events"), "oom 1\noom_kill 3\n").unwrap();
        assert!(ran_out_of_memory(&group.path));
    }

    /// SC-54: with real groups, where this machine has any to give.
    #[test]
    fn what_is_in_a_group_is_killed_with_it() {
        let groups = match Groups::find() {
            Ok(groups) => groups,
            Err(reason) => {
                eprintln!("SKIPPED: no control group can be written here ({reason})");
                return;
            }
        };
        let group = groups.make(1 << 30, 64).unwrap();
        let mut shell = Command::new("bash");
        shell.arg("-c").arg("echo 0 > \"$0\"; setsid sleep 600 & exec sleep 600");
        shell.arg(group.path.join("cgroup.procs")).stdout(Stdio::null());
        let mut shell = shell.spawn().unwrap();
        let members = || fs::read_to_string(group.path.join("cgroup.procs")).unwrap_or_default();
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while members().lines().count() < 2 {
            assert!(std::time::Instant::now() < deadline, "{}", members());
            std::thread::sleep(Duration::from_millis(5));
        }

        end(&group.path);
        shell.wait().unwrap();

        while !members().is_empty() {
            assert!(std::time::Instant::now() < deadline, "{}", members());
            std::thread::sleep(Duration::from_millis(5));
        }
        let path = group.path.clone();
        drop(group);
        assert!(!path.exists());
    }
}
