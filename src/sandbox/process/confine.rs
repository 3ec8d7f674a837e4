//! What a process does to itself before it becomes a command: limits, no capabilities, Landlock, seccomp.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::Path,
};

use hivewright_actors::policy::caution::SELF_FOLDERS;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath,
    PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::{
    fs::{Mode, OFlags},
    process::{Resource, Rlimit},
    thread::{CapabilitySet, CapabilitySets},
};

use super::{
    layers::{Layer, Missing},
    layout,
    plan::{Folder, Home, Plan},
    seccomp,
};
use crate::sandbox::workspace::governance::GOVERNED_DIR;

/// System programs and what they need to start. Not all of `/etc`: it holds hashes and keys.
pub(super) const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/debian_version",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/inputrc",
    "/etc/java",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/perl",
    "/etc/protocols",
    "/etc/python3",
    "/etc/services",
    "/etc/shells",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
];

/// Where a program with a network looks up how names are resolved.
pub(super) const RESOLVER: &str = "/etc/resolv.conf";

/// The devices inside, and whether they may be written.
pub(super) const DEVICES: &[(&str, bool)] = &[
    ("/dev/null", true),
    ("/dev/zero", true),
    ("/dev/random", false),
    ("/dev/urandom", false),
    ("/dev/tty", true),
];

/// Numbers below are kept by the kernel for its own once they were used up.
const RESERVED_NUMBERS: u64 = 300;
/// The first kernel where each process namespace has its own highest number.
const OWN_NUMBERS: (u32, u32) = (6, 14);

/// Confines this process for good.
pub(super) fn apply(plan: &Plan, home: &Home) -> Result<(), Missing> {
    limit(plan)?;
    drop_capabilities()?;
    restrict_files(plan, home)?;
    seccomp::apply(plan.namespaces, plan.is_agent() || plan.has_network())
}

fn limit(plan: &Plan) -> Result<(), Missing> {
    let mut limits = vec![
        (Resource::Core, 0),
        (Resource::Nofile, 1024),
        (Resource::Fsize, plan.file_size),
        (Resource::Data, plan.memory),
    ];
    // Counted per user and user namespace: outside a new one, all that the user runs counts too.
    let running = if plan.namespaces { 0 } else { threads_of_user() };
    limits.push((Resource::Nproc, running + plan.processes));
    for (resource, limit) in limits {
        let allowed = rustix::process::getrlimit(resource).maximum;
        let limit = Some(allowed.map_or(limit, |allowed| allowed.min(limit)));
        let both = Rlimit { current: limit, maximum: limit };
        rustix::process::setrlimit(resource, both).map_err(Missing::of(Layer::Base, "limits"))?;
    }
    Ok(())
}

/// What this user runs on the machine.
fn threads_of_user() -> u64 {
    let user = rustix::process::getuid().as_raw();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|entry| entry.metadata().is_ok_and(|entry| entry.uid() == user))
        .filter_map(|entry| fs::read_dir(entry.path().join("task")).ok())
        .map(|threads| threads.count() as u64)
        .sum()
}

/// Bounds a process namespace by its highest number, where each has its own.
///
/// The limit per user does not bind the superuser; this does. Elsewhere the sweep has to do.
pub(super) fn bound_process_numbers(proc: &Path, processes: u64) {
    let release = fs::read_to_string(proc.join("sys/kernel/osrelease")).unwrap_or_default();
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || parts.next()?.parse::<u32>().ok();
    // On an older kernel this file would set the limit of the whole machine.
    if let (Some(major), Some(minor)) = (number(), number())
        && (major, minor) >= OWN_NUMBERS
    {
        let highest = (RESERVED_NUMBERS + processes).to_string();
        let _ = fs::write(proc.join("sys/kernel/pid_max"), highest);
    }
}

/// Gives up every capability, also for programs started later.
pub(super) fn drop_capabilities() -> Result<(), Missing> {
    let failed = Missing::of(Layer::Base, "capabilities");
    for capability in CapabilitySet::all().iter() {
        // Newer kernels know more, older fewer; without the right to do so there is nothing to lose.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    let _ = rustix::thread::clear_ambient_capability_set();
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none).map_err(&failed)?;
    let left = rustix::thread::capabilities(None).map_err(&failed)?;
    if left == none {
        Ok(())
    } else {
        Err(Missing::new(Layer::Base, "capabilities could not be dropped"))
    }
}

/// Opens a folder of the team, and makes sure that it is the one the daemon holds open.
pub(super) fn open_folder(folder: &Folder) -> Result<OwnedFd, Missing> {
    let shown = folder.path.display();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = rustix::fs::open(&folder.path, flags, Mode::empty())
        .map_err(|errno| Missing::new(Layer::Base, format!("{shown}: {errno}")))?;
    let stat = rustix::fs::fstat(&handle).map_err(Missing::of(Layer::Base, "folder"))?;
    if (stat.st_dev, stat.st_ino) == (folder.device, folder.inode) {
        Ok(handle)
    } else {
        Err(Missing::new(Layer::Base, format!("{shown} was replaced")))
    }
}

fn restrict_files(plan: &Plan, home: &Home) -> Result<(), Missing> {
    let mut rules = ruleset(plan).map_err(|error| Missing::new(Layer::Landlock, error))?;
    let look = AccessFs::ReadFile | AccessFs::ReadDir;
    for path in SYSTEM {
        rules = allow_path(rules, Path::new(path), look | AccessFs::Execute)?;
    }
    for (path, writable) in DEVICES {
        let access = if *writable {
            AccessFs::ReadFile | AccessFs::WriteFile
        } else {
            AccessFs::ReadFile.into()
        };
        rules = allow_path(rules, Path::new(path), access)?;
    }
    rules = allow_path(rules, Path::new("/proc"), look)?;
    if plan.namespaces {
        // Everything that is there may be seen; what it holds is another matter.
        rules = allow_path(rules, Path::new("/"), AccessFs::ReadDir.into())?;
    }
    for path in [&home.home, &home.tmp] {
        rules = allow_path(rules, path, writable())?;
    }
    if plan.is_agent() {
        let port = NetPort::new(layout::PORT, AccessNet::ConnectTcp);
        rules = rules.add_rule(port).map_err(|error| Missing::new(Layer::Landlock, error))?;
        rules = allow_path(rules, Path::new(layout::FILES), look)?;
    }
    for path in plan.shown() {
        rules = allow_path(rules, path, look | AccessFs::Execute)?;
    }
    if plan.has_network() {
        rules = allow_path(rules, Path::new(RESOLVER), look)?;
    }
    for (position, folder) in plan.folders.iter().enumerate() {
        let handle = open_folder(folder)?;
        let keep_top = position == 0 && plan.keep_top;
        if keep_top {
            for (name, below) in folders_below(&handle, &plan.kept)? {
                // No hard link leads out of what tells the team what it is.
                let access = if SELF_FOLDERS.iter().any(|folder| name == *folder) {
                    writable() & !AccessFs::Refer
                } else {
                    writable()
                };
                rules = allow(rules, below, access)?;
            }
        }
        let access =
            if folder.writable && !keep_top { writable() } else { look | AccessFs::Execute };
        rules = allow(rules, handle, access)?;
    }

    match rules.restrict_self().map_err(|error| Missing::new(Layer::Landlock, error))?.ruleset {
        RulesetStatus::NotEnforced => Err(Missing::new(Layer::Landlock, "not enforced")),
        _ => Ok(()),
    }
}

/// Refuses everything that this kernel can refuse, and at least all access to files.
fn ruleset(plan: &Plan) -> Result<RulesetCreated, landlock::RulesetError> {
    let newest = ABI::V9;
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V3))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(newest))?
        .scope(Scope::from_all(newest))?;
    if plan.has_network() {
        return rules.create();
    }
    rules.handle_access(AccessNet::from_all(newest))?.create()
}

/// Everything but making devices and driving them.
fn writable() -> BitFlags<AccessFs> {
    AccessFs::from_all(ABI::V3) & !(AccessFs::MakeChar | AccessFs::MakeBlock)
}

/// The folders at the top of a workspace that stay writable when the top itself does not.
pub(super) fn folders_below(
    workspace: &OwnedFd,
    kept: &[String],
) -> Result<Vec<(OsString, OwnedFd)>, Missing> {
    let failed = Missing::of(Layer::Base, "workspace");
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listing = rustix::fs::openat(workspace, ".", flags, Mode::empty()).map_err(&failed)?;
    let mut folders = Vec::new();
    for entry in rustix::fs::Dir::new(listing).map_err(&failed)?.flatten() {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "."
            || name == ".."
            || name == GOVERNED_DIR
            || kept.iter().any(|kept| name == kept.as_str())
        {
            continue;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if let Ok(folder) = rustix::fs::openat(workspace, name, flags, Mode::empty()) {
            folders.push((name.to_owned(), folder));
        }
    }
    Ok(folders)
}

/// A path that is not there needs no rule.
fn allow_path(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, Missing> {
    let Ok(kind) = fs::metadata(path) else { return Ok(rules) };
    let access = if kind.is_dir() { access } else { access & AccessFs::from_file(ABI::V3) };
    let handle = PathFd::new(path).map_err(|error| Missing::new(Layer::Landlock, error))?;
    allow(rules, handle, access)
}

fn allow(
    rules: RulesetCreated,
    folder: impl AsFd,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, Missing> {
    rules
        .add_rule(PathBeneath::new(folder, access))
        .map_err(|error| Missing::new(Layer::Landlock, error))
}
