//! The launcher: the daemon's own binary, started anew to confine itself and become the command.
//!
//! Three processes, if namespaces are there: the launcher outside watches the tree and ends it; the
//! first process of the new process namespace reaps, and takes everything with it when it ends; the
//! worker confines itself and becomes the program. Without namespaces the first two are one.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write},
    net::{Ipv4Addr, TcpListener},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::Mode,
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags},
    process::{PidfdFlags, Signal, WaitOptions, WaitStatus},
    thread::UnshareFlags,
};

use super::{
    attempt::attempt,
    cgroup, confine,
    layers::{Layer, Missing},
    layout::{HOME, PORT, WORK},
    mounts,
    plan::{FAILED, Home, Plan, Program, Report},
    supervise,
    sys::{self, Fork},
};

/// The first argument that makes the binary a launcher.
pub const ARGUMENT: &str = "sandbox-launch";

/// Runs the launcher. Call it first of all, while the process has one thread.
pub fn main() -> ExitCode {
    let Ok(control) = take_control() else { return ExitCode::from(FAILED) };
    let Ok(plan) = Plan::read(&control) else { return ExitCode::from(FAILED) };
    match launch(&plan, &control) {
        Ok(()) => ExitCode::SUCCESS,
        Err(missing) => {
            report(&control, &Report::Refused(missing));
            ExitCode::from(FAILED)
        }
    }
}

/// The connection to the daemon stands at descriptor 0; the program gets an empty input instead.
fn take_control() -> io::Result<UnixStream> {
    sys::close_inherited()?;
    let control: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(control.into())
}

fn report(mut control: &UnixStream, report: &Report) {
    // Nobody is left to tell if the daemon is gone.
    if let Ok(mut line) = serde_json::to_vec(report) {
        line.push(b'\n');
        let _ = control.write_all(&line);
    }
}

fn launch(plan: &Plan, control: &UnixStream) -> Result<(), Missing> {
    let base = Missing::of(Layer::Base, "session");
    rustix::process::setsid().map_err(&base)?;
    rustix::process::umask(Mode::from_raw_mode(0o077));
    rustix::thread::set_no_new_privs(true).map_err(Missing::of(Layer::Base, "no_new_privs"))?;
    let launcher = ourselves()?;
    if plan.namespaces {
        enter_namespaces(plan)?;
    } else {
        // What a dying parent leaves behind becomes ours, so that it can be found and ended.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(&base)?;
    }
    match sys::fork().map_err(Missing::of(Layer::Base, "fork"))? {
        Fork::Child => {
            if let Some(group) = &plan.group {
                // Outside of it the other bounds hold alone, as where there are no groups.
                let _ = cgroup::enter(group);
            }
            let ended = end_with(&launcher).and_then(|()| {
                if plan.namespaces { first_process(plan, control) } else { work(plan) }
            });
            leave(ended, control)
        }
        Fork::Parent(child) => {
            let ended = supervise::until_end(child, control, plan)
                .map_err(Missing::of(Layer::Base, "watching the command"))?;
            if let Some(ended) = ended {
                report(control, &Report::Ended(ended));
            }
            Ok(())
        }
    }
}

/// A handle of this process, for its children.
fn ourselves() -> Result<OwnedFd, Missing> {
    rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())
        .map_err(Missing::of(Layer::Base, "handle of the parent"))
}

/// Ends this process with its parent. One that ended before the kernel was told will not be heard of, and
/// its number says nothing in another namespace: its handle does. Then nothing is missing, and nobody is told so.
fn end_with(parent: &OwnedFd) -> Result<(), Missing> {
    let base = Missing::of(Layer::Base, "parent");
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(&base)?;
    if has_ended(parent).map_err(&base)? {
        std::process::exit(FAILED.into());
    }
    Ok(())
}

fn has_ended(process: &OwnedFd) -> rustix::io::Result<bool> {
    let mut events = [PollFd::new(process, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    Ok(rustix::event::poll(&mut events, Some(&now))? > 0)
}

/// Ends a child of the launcher, which must not return into its parent's code.
fn leave(ended: Result<i32, Missing>, control: &UnixStream) -> ! {
    let code = ended.unwrap_or_else(|missing| {
        report(control, &Report::Refused(missing));
        FAILED.into()
    });
    std::process::exit(code)
}

fn enter_namespaces(plan: &Plan) -> Result<(), Missing> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let mut flags =
        UnshareFlags::NEWUSER | UnshareFlags::NEWPID | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    flags.set(UnshareFlags::NEWNET, !plan.has_network());
    sys::unshare(flags).map_err(Missing::of(Layer::Namespaces, "unshare"))?;
    let maps = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{0} {0} 1", user.as_raw())),
        ("/proc/self/gid_map", format!("{0} {0} 1", group.as_raw())),
    ];
    for (file, map) in maps {
        std::fs::write(file, map).map_err(Missing::of(Layer::Namespaces, file))?;
    }
    Ok(())
}

/// The first process of the process namespace: when it ends, the kernel ends all the others.
fn first_process(plan: &Plan, control: &UnixStream) -> Result<i32, Missing> {
    let base = Missing::of(Layer::Base, "first process");
    mounts::enter(plan)?;
    if plan.is_agent() {
        listen(control).map_err(Missing::of(Layer::Network, "a port inside"))?;
    }
    let first = ourselves()?;
    let worker = match sys::fork().map_err(Missing::of(Layer::Base, "fork"))? {
        Fork::Child => leave(end_with(&first).and_then(|()| work(plan)), control),
        Fork::Parent(worker) => worker,
    };
    confine::drop_capabilities()?;
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == worker => return Ok(code(status)),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(base(errno)),
        }
    }
}

/// Hands the daemon a socket that belongs to this network, and to which nothing else leads.
fn listen(control: &UnixStream) -> io::Result<()> {
    sys::raise_loopback()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PORT))?;
    let mut line = serde_json::to_vec(&Report::Listening)?;
    line.push(b'\n');
    let handles = [listener.as_fd()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&handles));
    let parts = [io::IoSlice::new(&line)];
    rustix::net::sendmsg(control, &parts, &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// Signals travel through the namespace's border as codes above 128, as a shell would tell them.
fn code(status: WaitStatus) -> i32 {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => FAILED.into(),
    }
}

/// Confines this process and becomes the program.
fn work(plan: &Plan) -> Result<i32, Missing> {
    let home = if plan.namespaces {
        Home { home: HOME.into(), tmp: "/tmp".into() }
    } else {
        Home { home: plan.scratch.join("home"), tmp: plan.scratch.join("tmp") }
    };
    let workspace = match (&plan.program, plan.folders.first()) {
        (Program::Agent { .. }, _) => Path::new(WORK),
        (Program::Plugin { folder, .. }, _) => folder,
        (_, Some(folder)) => folder.path.as_path(),
        (Program::Server { .. }, None) => &home.home,
        (_, None) => return Err(Missing::new(Layer::Base, "the plan names no workspace")),
    };
    rustix::process::chdir(workspace).map_err(Missing::of(Layer::Base, "workspace"))?;
    confine::apply(plan, &home)?;
    let (binary, args) = match &plan.program {
        Program::SelfTest(targets) => return Ok(attempt(targets)),
        Program::Bash(command) => (Path::new("/bin/bash"), vec!["-c", command]),
        Program::Agent { program, .. }
        | Program::Server { program, .. }
        | Program::Plugin { program, .. } => {
            join_streams()?;
            (program.command.as_path(), program.args.iter().map(String::as_str).collect())
        }
    };
    let mut command = Command::new(binary);
    command.args(args).env_clear().envs(&plan.env);
    command.env("PATH", path(plan)).env("TMPDIR", &home.tmp).env("LANG", "C.UTF-8");
    match (&plan.program, plan.folders.first()) {
        (Program::Plugin { .. }, Some(data)) => command.env("HOME", &data.path),
        _ => command
            .env("HOME", &home.home)
            .env("USER", "team")
            .env("TERM", "dumb")
            .env("SHELL", "/bin/bash"),
    };
    let error = command.exec();
    Err(Missing::new(Layer::Base, format!("{}: {error}", binary.display())))
}

/// What the program reads and what it prints are the two directions of one stream.
fn join_streams() -> Result<(), Missing> {
    rustix::stdio::dup2_stdin(io::stdout()).map_err(Missing::of(Layer::Base, "input"))
}

/// Where programs are found. An agent may be a script whose interpreter stands in a folder that it is shown.
fn path(plan: &Plan) -> OsString {
    let system = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let own = match &plan.program {
        Program::Agent { path, .. } => path.as_slice(),
        _ => &[],
    };
    let folders = own.iter().map(PathBuf::as_path).chain(system.map(Path::new));
    std::env::join_paths(folders).unwrap_or_else(|_| system.join(":").into())
}

#[cfg(test)]
mod tests {
    use rustix::process::Pid;

    use super::*;

    /// SC-18: a child that asks to end with its parent must notice one that has ended before it asked.
    #[test]
    fn a_parent_that_has_ended_already_is_noticed() {
        let mut parent = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_child(&parent);
        let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty()).unwrap();

        let before = has_ended(&handle).unwrap();
        parent.kill().unwrap();
        parent.wait().unwrap();
        let after = has_ended(&handle).unwrap();

        assert_eq!((before, after), (false, true));
    }
}
