//! The few system calls that no safe wrapper offers.
#![expect(unsafe_code, reason = "fork, unshare and three raw system calls have no safe form")]

use std::{
    ffi::CString,
    io,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    path::Path,
};

use rustix::{
    net::{AddressFamily, SocketType},
    process::Pid,
    thread::UnshareFlags,
};

/// Which side of a fork this is.
pub(super) enum Fork {
    Child,
    Parent(Pid),
}

/// Splits the process.
///
/// Only for the launcher, which has one thread: the child may then do all that the parent may.
pub(super) fn fork() -> io::Result<Fork> {
    // SAFETY: the launcher never starts a thread, so no lock can be held by one that is gone.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Pid::from_raw(pid)
            .map(Fork::Parent)
            .ok_or_else(|| io::Error::other("fork gave no process")),
    }
}

/// Moves this process into new namespaces.
pub(super) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: no flag here unshares descriptors, which is what makes the call unsafe.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(io::Error::from)
}

/// Closes every descriptor from 3 on. Only before anything in this process owns one.
pub(super) fn close_inherited() -> io::Result<()> {
    // SAFETY: takes three numbers and touches no memory of ours.
    done(unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) })
}

/// Raises the loopback of this network namespace.
pub(super) fn raise_loopback() -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the socket is open, and the kernel reads a structure that lives through the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    done(result.into())
}

/// The outcome of a system call, by what it returned just now.
fn done(result: libc::c_long) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Asks another process to be traced by its parent. Only the self-test does, hoping for a refusal.
pub(super) fn trace_me() -> io::Result<()> {
    // SAFETY: PTRACE_TRACEME ignores its other arguments.
    done(unsafe { libc::syscall(libc::SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0) })
}

/// The Landlock version of this kernel, 0 if it has none.
pub(super) fn landlock_abi() -> u32 {
    const VERSION: u32 = 1;
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: with the version flag the kernel reads no attribute.
    let abi = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0usize, VERSION) };
    u32::try_from(abi).unwrap_or(0)
}

/// Whether this kernel can refuse a system call with an error number.
pub(super) fn seccomp_available() -> bool {
    const GET_ACTION_AVAIL: libc::c_uint = 2;
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the kernel reads one u32 through a pointer that is valid for the call.
    unsafe { libc::syscall(libc::SYS_seccomp, GET_ACTION_AVAIL, 0u32, &raw const action) == 0 }
}

/// Attributes of a mount: what it does not allow.
pub(super) const RDONLY: u64 = 1;
pub(super) const NOSUID: u64 = 2;
pub(super) const NODEV: u64 = 4;

/// Restricts a mount, with all below it if `recursive`.
pub(super) fn limit_mount(path: &Path, attributes: u64, recursive: bool) -> io::Result<()> {
    #[repr(C)]
    struct Attributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }

    let path = CString::new(path.as_os_str().as_bytes())?;
    let attributes = Attributes { set: attributes, clear: 0, propagation: 0, user_namespace: 0 };
    let flags = if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the string and the structure live through the call, and the size is the structure's.
    done(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    })
}
