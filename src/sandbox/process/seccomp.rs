//! The system calls that a confined command does not get, and the few that a script host gets.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::layers::{Layer, Missing};

/// Refused whatever their arguments.
const REFUSED: &[i64] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_open_by_handle_at,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_settimeofday,
    libc::SYS_adjtimex,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Said not to exist, so that libraries take the older way. Memory files would be counted nowhere.
const ABSENT: &[i64] = &[
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_clone3,
    libc::SYS_memfd_create,
];

/// Refused beside these where the command shares the machine's files and processes: what changes a
/// file by its name alone, which Landlock does not see, and memory that outlives its maker.
const SHARED: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_shmget,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
];

/// All that a process needs which runs scripts, reads its input and writes its output. Threads are made beside these.
const OF_SCRIPTS: &[i64] = &[
    // Its streams.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_ppoll,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    // Threads and their signals.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    // Time and chance.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
];

/// What a script host may ask of `prctl`: how the kernel started it, which tells where its clock is, and names for its
/// threads and its memory.
const PRCTL_OF_SCRIPTS: [libc::c_int; 3] = [PR_GET_AUXV, libc::PR_SET_NAME, libc::PR_SET_VMA];
const PR_GET_AUXV: libc::c_int = 0x4155_5856;

/// Calls that reach for another process by number, with the argument that holds it.
const OTHERS: &[(i64, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];

const NAMESPACES: &[libc::c_int] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// The type of a socket without its flags.
const SOCKET_TYPE: u64 = 0xf;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Installs the filters on this thread and all that comes from it.
///
/// More is refused where no namespaces keep the machine's own files and processes out of sight. What `connects` gets
/// sockets; it has a network of its own.
pub(super) fn apply(namespaces: bool, connects: bool) -> Result<(), Missing> {
    for program in
        programs(namespaces, connects).map_err(|error| Missing::new(Layer::Seccomp, error))?
    {
        seccompiler::apply_filter(&program).map_err(|error| Missing::new(Layer::Seccomp, error))?;
    }
    Ok(())
}

/// Leaves to this thread and all that comes from it what running scripts takes, and nothing else.
pub(super) fn seal() -> Result<(), Missing> {
    for program in sealing().map_err(|error| Missing::new(Layer::Seccomp, error))? {
        seccompiler::apply_filter(&program).map_err(|error| Missing::new(Layer::Seccomp, error))?;
    }
    Ok(())
}

fn sealing() -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    let makes_thread = when(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(thread), thread)?;
    let mut prctl = Vec::new();
    for option in PRCTL_OF_SCRIPTS {
        let option = u64::from(option.unsigned_abs());
        prctl.push(when(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, option)?);
    }
    // What is absent stays so by the filter before: of two answers with an error, that of the later one counts.
    let allowed = OF_SCRIPTS.iter().chain(ABSENT);
    let mut rules: Rules = allowed.map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_clone, vec![makes_thread]);
    rules.insert(libc::SYS_prctl, prctl);
    Ok([absent()?, program(rules, SeccompAction::Allow, error(libc::EPERM))?])
}

fn programs(
    namespaces: bool,
    connects: bool,
) -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    let refused = refused(namespaces, connects)?;
    Ok([absent()?, program(refused, error(libc::EPERM), SeccompAction::Allow)?])
}

fn absent() -> Result<BpfProgram, seccompiler::BackendError> {
    let absent = ABSENT.iter().map(|call| (*call, Vec::new())).collect();
    program(absent, error(libc::ENOSYS), SeccompAction::Allow)
}

fn error(number: libc::c_int) -> SeccompAction {
    SeccompAction::Errno(number.unsigned_abs())
}

fn refused(namespaces: bool, connects: bool) -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_socket, sockets(connects)?);
    let mut clone = Vec::new();
    for flag in NAMESPACES {
        let flag = u64::from(flag.unsigned_abs());
        clone.push(when(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag)?);
    }
    rules.insert(libc::SYS_clone, clone);
    let mut ioctl = Vec::new();
    for request in [libc::TIOCSTI, libc::TIOCLINUX] {
        ioctl.push(when(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, request)?);
    }
    rules.insert(libc::SYS_ioctl, ioctl);
    // A pair talks to itself. One of datagrams could be pointed elsewhere afterwards.
    let masked = SeccompCmpOp::MaskedEq(SOCKET_TYPE);
    let pair = vec![
        when(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, libc::AF_UNIX as u64)?,
        when(1, SeccompCmpArgLen::Dword, masked.clone(), libc::SOCK_DGRAM as u64)?,
        when(1, SeccompCmpArgLen::Dword, masked, libc::SOCK_RAW as u64)?,
    ];
    rules.insert(libc::SYS_socketpair, pair);
    if !namespaces {
        rules.extend(SHARED.iter().map(|call| (*call, Vec::new())));
        for (call, argument) in OTHERS {
            let other = when(*argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?;
            rules.insert(*call, vec![other]);
        }
    }
    Ok(rules)
}

/// Which sockets are refused: all, since even a local one could reach a service of the machine; or those of other families
/// than a connection inside its own network needs.
fn sockets(connects: bool) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    if !connects {
        return Ok(Vec::new());
    }
    let others = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6].map(|family| {
        let (dword, family) = (SeccompCmpArgLen::Dword, u64::from(family.unsigned_abs()));
        SeccompCondition::new(0, dword, SeccompCmpOp::Ne, family)
    });
    let others = others.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(vec![SeccompRule::new(others)?])
}

fn when(
    argument: u8,
    length: SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, length, operator, value)?])
}

/// A filter that does one thing with the listed calls, and another with the rest. Other architectures are killed.
fn program(
    rules: Rules,
    listed: SeccompAction,
    rest: SeccompAction,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(rules, rest, listed, architecture)?;
    let mut program = other_numbering();
    program.extend(BpfProgram::try_from(filter)?);
    Ok(program)
}

/// Kills calls of the x32 numbering, which shares its architecture with ours and would pass a list.
#[cfg(target_arch = "x86_64")]
fn other_numbering() -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    let statement = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let at_least = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    let give_back = (libc::BPF_RET | libc::BPF_K) as u16;
    vec![
        statement(load, 0, 0, 0),
        statement(at_least, 0, 1, X32),
        statement(give_back, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
    ]
}

#[cfg(not(target_arch = "x86_64"))]
fn other_numbering() -> BpfProgram {
    Vec::<sock_filter>::new()
}

#[cfg(test)]
mod tests {

    use rustix::{
        io::Errno,
        net::{AddressFamily, SocketType},
    };

    use super::*;

    /// SC-52, SC-58: the filter alone keeps sockets from a command, also where it shares the machine's network.
    /// A filter binds the thread that installs it.
    #[test]
    fn no_socket_is_given_of_any_family() {
        let families = [
            libc::AF_INET,
            libc::AF_INET6,
            libc::AF_UNIX,
            libc::AF_NETLINK,
            libc::AF_PACKET,
            libc::AF_VSOCK,
        ];
        for namespaces in [true, false] {
            let confined = std::thread::spawn(move || {
                rustix::thread::set_no_new_privs(true).unwrap();
                apply(namespaces, false).unwrap();
                families.map(|family| {
                    let family = AddressFamily::from_raw(family as u16);
                    [SocketType::STREAM, SocketType::DGRAM, SocketType::RAW]
                        .map(|kind| rustix::net::socket(family, kind, None).map(drop))
                })
            });

            let refused = [Err(Errno::PERM); 3];
            assert_eq!(confined.join().unwrap(), [refused; 6]);
        }
    }

    /// SC-48: what is not on the list is refused, be it as harmless as it may; threads are made all the same.
    #[test]
    fn a_script_host_has_threads_memory_and_time_and_nothing_else() {
        let sealed = std::thread::spawn(|| {
            rustix::thread::set_no_new_privs(true).unwrap();
            seal().unwrap();
            let thread = std::thread::Builder::new().spawn(|| vec![7_u8; 1 << 20].len());
            let refused = [
                rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).map(drop),
                rustix::fs::open("/dev/null", rustix::fs::OFlags::RDONLY, 0.into()).map(drop),
                rustix::process::getpgid(None).map(drop),
                rustix::thread::set_no_new_privs(true),
            ];
            std::thread::sleep(std::time::Duration::from_millis(1));
            (thread.unwrap().join().unwrap(), refused)
        });

        assert_eq!(sealed.join().unwrap(), (1 << 20, [Err(Errno::PERM); 4]));
    }

    /// SC-52
    #[test]
    fn the_filters_compile_for_this_machine() {
        for namespaces in [true, false] {
            let programs = programs(namespaces, false).unwrap();

            assert!(programs.iter().all(|program| program.len() > ABSENT.len()));
        }
    }
}
