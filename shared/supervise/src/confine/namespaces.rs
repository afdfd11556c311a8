//! Mounts and a network of a program's own.
//!
//! Landlock lets a program change the mode, the owner and the times of files that belong to its user, wherever
//! they are. Where the system lets the process make a mount namespace, everything but the folders that the
//! program may write is read-only in it, and so are these.

use rustix::mount::{
    MountFlags, MountPropagationFlags, mount as mount_new, mount_bind_recursive, mount_change,
    mount_remount,
};
use rustix::net::{AddressFamily, SocketType, bind, netlink, recv, send, socket};
use rustix::process::{getgid, getuid};
use rustix::thread::{CapabilitySet, UnshareFlags, capabilities};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// Where programs share memory by names.
pub(super) const SHARED: &str = "/dev/shm";
/// A folder in memory, of at most so many bytes.
const OF_SHARED: &std::ffi::CStr = c"size=1073741824,mode=1777";

/// Makes the namespaces for this process, and for the programs that it starts or becomes. It must have one
/// thread.
///
/// # Errors
/// The system does not let it. The process is then no good for anything else.
pub(super) fn enter(mounts: bool, loopback: bool, write: &[PathBuf]) -> io::Result<()> {
    let mut flags = UnshareFlags::empty();
    flags.set(UnshareFlags::NEWNS, mounts);
    flags.set(UnshareFlags::NEWNET, loopback);
    if flags.is_empty() {
        return Ok(());
    }
    let is_mighty = capabilities(None)?
        .effective
        .contains(CapabilitySet::SYS_ADMIN);
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    flags.set(UnshareFlags::NEWUSER, !is_mighty);
    #[expect(
        deprecated,
        reason = "it is unsafe with shared descriptors only, and these flags share them on"
    )]
    rustix::thread::unshare(flags)?;
    if !is_mighty {
        // The same user and group, and no other.
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    }
    if mounts {
        make_read_only(write)?;
    }
    if loopback {
        raise_loopback()?;
    }
    Ok(())
}

fn make_read_only(write: &[PathBuf]) -> io::Result<()> {
    let folder = std::env::current_dir()?;
    mount_change(
        "/",
        MountPropagationFlags::REC | MountPropagationFlags::PRIVATE,
    )?;
    for path in write {
        mount_bind_recursive(path, path)?;
    }
    for mount in mounts()? {
        if write.iter().any(|path| mount.point.starts_with(path)) {
            continue;
        }
        match mount_remount(&mount.point, mount.flags | MountFlags::RDONLY, "") {
            Ok(()) => {}
            // This process cannot see it, or another mount lies over it: no more can the program.
            Err(
                rustix::io::Errno::ACCESS | rustix::io::Errno::NOENT | rustix::io::Errno::INVAL,
            ) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if Path::new(SHARED).is_dir() {
        // One of its own: that of the system has memory of other programs.
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount_new("tmpfs", SHARED, "tmpfs", flags, OF_SHARED)?;
    }
    // The folder that it is in is the one below the mounts that are new.
    std::env::set_current_dir(folder)
}

/// A mount, with the flags that a remount must keep.
struct Mount {
    point: PathBuf,
    flags: MountFlags,
}

fn mounts() -> io::Result<Vec<Mount>> {
    let text = fs::read("/proc/self/mountinfo")?;
    let lines = text.split(|byte| *byte == b'\n');
    Ok(lines.filter_map(mount).collect())
}

/// A line of `mountinfo`: number, parent, device, root, mount point, options and more.
fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ').skip(4);
    let point = PathBuf::from(OsString::from_vec(unescaped(fields.next()?)));
    let options = String::from_utf8_lossy(fields.next()?).into_owned();
    let mut flags = MountFlags::BIND;
    for option in options.split(',') {
        flags |= match option {
            "nosuid" => MountFlags::NOSUID,
            "nodev" => MountFlags::NODEV,
            "noexec" => MountFlags::NOEXEC,
            "noatime" => MountFlags::NOATIME,
            "nodiratime" => MountFlags::NODIRATIME,
            "relatime" => MountFlags::RELATIME,
            _ => MountFlags::empty(),
        };
    }
    Some(Mount { point, flags })
}

/// Blanks and the like are written as a backslash and three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, more)) = rest.split_first() {
        let code = more.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &more[3..];
            }
            None => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    bytes
}

/// A request to the kernel to set the flag "up" of the first device, which is the loopback device of a new
/// namespace.
fn raise_loopback() -> io::Result<()> {
    const NEW_LINK: u16 = 16;
    const REQUEST_AND_ANSWER: u16 = 1 | 4;
    const UP: u32 = 1;
    const ERROR: u16 = 2;
    let kernel = netlink::SocketAddrNetlink::new(0, 0);
    let socket = socket(
        AddressFamily::NETLINK,
        SocketType::RAW,
        // That is the one for devices.
        None,
    )?;
    bind(&socket, &kernel)?;
    let mut message = Vec::new();
    message.extend(32_u32.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_AND_ANSWER.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([0; 4]);
    message.extend(1_u32.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    send(&socket, &message, rustix::net::SendFlags::empty())?;
    let mut answer = [0; 256];
    let (read, _) = recv(&socket, &mut answer, rustix::net::RecvFlags::empty())?;
    let kind = answer.get(4..6).filter(|_| read >= 20);
    let error = answer.get(16..20);
    match (kind, error) {
        (Some(kind), Some([0, 0, 0, 0])) if kind == ERROR.to_ne_bytes() => Ok(()),
        _ => Err(io::Error::other("the loopback device does not start")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_keeps_its_flags_and_the_blanks_of_its_name() {
        let line =
            b"28 27 0:25 / /mnt/a\\040b\\134c ro,nosuid,nodev,relatime shared:1 - tmpfs x ro";
        let mount = mount(line).unwrap();
        assert_eq!(mount.point, Path::new("/mnt/a b\\c"));
        let kept = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RELATIME;
        assert_eq!(mount.flags, MountFlags::BIND | kept);
        assert!(super::mount(b"28 27").is_none());
    }
}
