//! Watching a running tree from outside: its limits, its end, and the daemon that may want it gone.

use std::{
    collections::{HashMap, HashSet},
    io::{self, Read},
    os::{fd::AsFd, unix::net::UnixStream},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus},
};

use super::{
    cgroup,
    plan::{Ended, FAILED, Plan, TERMINATE},
};

/// How often the tree is counted where no control group counts it.
const SWEEP: Duration = Duration::from_millis(100);
/// How long killing may take before it is given up.
const KILLING: Duration = Duration::from_secs(5);

/// Waits for the child and everything it started. `None`: the daemon wanted it gone.
pub(super) fn until_end(
    child: Pid,
    mut control: &UnixStream,
    plan: &Plan,
) -> io::Result<Option<Ended>> {
    let handle = rustix::process::pidfd_open(child, PidfdFlags::empty())?;
    let pause = Timespec { tv_sec: 0, tv_nsec: i64::from(SWEEP.subsec_nanos()) };
    let mut swept = Instant::now();
    loop {
        let mut events = [
            PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN),
        ];
        match rustix::event::poll(&mut events, Some(&pause)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let [child_event, control_event] = events.map(|event| event.revents());
        if !child_event.is_empty() {
            let status = rustix::process::waitpid(Some(child), WaitOptions::empty())?;
            kill_tree(plan)?;
            if plan.group.as_deref().is_some_and(cgroup::ran_out_of_memory) {
                return Ok(Some(Ended::OverMemory));
            }
            return Ok(status.map(|(_, status)| ended(status)));
        }
        if !control_event.is_empty() {
            let mut order = [0];
            match control.read(&mut order) {
                Ok(1) if order[0] == TERMINATE => signal(&descendants()?, Signal::TERM),
                // The daemon let go of us, or is gone.
                _ => {
                    kill_tree(plan)?;
                    return Ok(None);
                }
            }
        }
        if swept.elapsed() >= SWEEP {
            swept = Instant::now();
            let tree = descendants()?;
            reap(&tree, child);
            if let Some(excess) = excess(&tree, plan) {
                kill_tree(plan)?;
                return Ok(Some(excess));
            }
        }
    }
}

/// How a child of ours ended.
fn ended(status: WaitStatus) -> Ended {
    match status.terminating_signal() {
        Some(signal) => Ended::Signalled(signal),
        None => Ended::Exited(status.exit_status().unwrap_or(FAILED.into())),
    }
}

/// Kills what we started until nothing is left.
///
/// All are stopped first: whoever is stopped starts nobody, and does not live to tell of another's death in the
/// output of the command, as shells do.
fn kill_tree(plan: &Plan) -> io::Result<()> {
    let deadline = Instant::now() + KILLING;
    let mut stopped = HashSet::new();
    loop {
        let running: HashSet<Pid> = descendants()?.difference(&stopped).copied().collect();
        if running.is_empty() || Instant::now() > deadline {
            break;
        }
        signal(&running, Signal::STOP);
        stopped.extend(running);
    }
    loop {
        if let Some(group) = &plan.group {
            cgroup::end(group);
        }
        let tree = descendants()?;
        if tree.is_empty() {
            return Ok(());
        }
        signal(&tree, Signal::KILL);
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        if Instant::now() > deadline {
            return Err(io::Error::other(format!("{} processes do not end", tree.len())));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Buries orphans that became ours, but not the child: its status is still wanted.
fn reap(tree: &HashSet<Pid>, child: Pid) {
    for pid in tree.iter().filter(|pid| **pid != child) {
        let _ = rustix::process::waitpid(Some(*pid), WaitOptions::NOHANG);
    }
}

fn signal(tree: &HashSet<Pid>, signal: Signal) {
    for pid in tree {
        // It may have ended by itself meanwhile.
        let _ = rustix::process::kill_process(*pid, signal);
    }
}

/// Everything below this process, as `/proc` shows it.
fn descendants() -> io::Result<HashSet<Pid>> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        if let Some(parent) = parent_of(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = HashSet::new();
    let mut open = vec![rustix::process::getpid().as_raw_nonzero().get()];
    while let Some(pid) = open.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            found.extend(Pid::from_raw(child));
            open.push(child);
        }
    }
    Ok(found)
}

/// The fourth field; the second is a name in parentheses that may hold anything.
fn parent_of(stat: &str) -> Option<i32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

fn excess(tree: &HashSet<Pid>, plan: &Plan) -> Option<Ended> {
    let (mut memory, mut threads) = (0, 0);
    for pid in tree {
        let path = format!("/proc/{}/status", pid.as_raw_nonzero());
        let Ok(status) = std::fs::read_to_string(path) else { continue };
        let kib = field(&status, "RssAnon:") + field(&status, "RssShmem:");
        memory += kib * 1024;
        threads += field(&status, "Threads:");
    }
    if memory > plan.memory {
        Some(Ended::OverMemory)
    } else if threads > plan.processes {
        Some(Ended::OverProcesses)
    } else {
        None
    }
}

fn field(status: &str, name: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|value| value.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_hide_the_parent() {
        assert_eq!(parent_of("42 (a) S 7 (b) S 31 42 42 0"), Some(31));
    }

    #[test]
    fn a_status_field_is_read_by_its_name() {
        let status = "Name:\tRssAnon: 5\nRssAnon:\t     128 kB\nThreads:\t3\n";

        let fields = ["RssAnon:", "Threads:", "RssShmem:"].map(|name| field(status, name));

        assert_eq!(fields, [128, 3, 0]);
    }
}
