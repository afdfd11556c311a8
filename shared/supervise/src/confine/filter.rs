//! The calls of the system that a confined program cannot make: a seccomp filter.
//!
//! Landlock governs files, signals and TCP ports. The filter closes what it does not govern: sockets of other
//! kinds, other processes' memory, namespaces and mounts, and parts of the kernel that no build or test needs.

use super::bounds::Network;
use libc as sys;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter, sock_filter,
};
use std::collections::BTreeMap;
use std::io;

/// Refused whatever their arguments are.
const NEVER: &[i64] = &[
    // Memory and descriptors of other processes.
    sys::SYS_ptrace,
    sys::SYS_process_vm_readv,
    sys::SYS_process_vm_writev,
    sys::SYS_process_madvise,
    sys::SYS_pidfd_getfd,
    sys::SYS_kcmp,
    // A way around this filter: the kernel carries out calls that were put into a queue.
    sys::SYS_io_uring_setup,
    sys::SYS_io_uring_enter,
    sys::SYS_io_uring_register,
    // Mounts and namespaces.
    sys::SYS_mount,
    sys::SYS_umount2,
    sys::SYS_move_mount,
    sys::SYS_open_tree,
    sys::SYS_fsopen,
    sys::SYS_fsconfig,
    sys::SYS_fsmount,
    sys::SYS_fspick,
    sys::SYS_mount_setattr,
    sys::SYS_pivot_root,
    sys::SYS_chroot,
    sys::SYS_unshare,
    sys::SYS_setns,
    // Files by their numbers, past every path.
    sys::SYS_open_by_handle_at,
    sys::SYS_name_to_handle_at,
    // The kernel itself.
    sys::SYS_bpf,
    sys::SYS_perf_event_open,
    sys::SYS_userfaultfd,
    sys::SYS_init_module,
    sys::SYS_finit_module,
    sys::SYS_delete_module,
    sys::SYS_kexec_load,
    sys::SYS_reboot,
    sys::SYS_swapon,
    sys::SYS_swapoff,
    sys::SYS_syslog,
    sys::SYS_acct,
    sys::SYS_quotactl,
    sys::SYS_fanotify_init,
    sys::SYS_settimeofday,
    sys::SYS_clock_settime,
    sys::SYS_adjtimex,
    sys::SYS_clock_adjtime,
    sys::SYS_sethostname,
    sys::SYS_setdomainname,
    // Keys of the user's session.
    sys::SYS_add_key,
    sys::SYS_request_key,
    sys::SYS_keyctl,
    // Memory and queues that other programs of the user share, and that outlive the program.
    sys::SYS_shmget,
    sys::SYS_shmat,
    sys::SYS_shmctl,
    sys::SYS_semget,
    sys::SYS_semop,
    sys::SYS_semtimedop,
    sys::SYS_semctl,
    sys::SYS_msgget,
    sys::SYS_msgsnd,
    sys::SYS_msgrcv,
    sys::SYS_msgctl,
    sys::SYS_mq_open,
    sys::SYS_mq_unlink,
];

/// Those of one architecture.
#[cfg(target_arch = "x86_64")]
const NEVER_HERE: &[i64] = &[
    sys::SYS_iopl,
    sys::SYS_ioperm,
    sys::SYS_modify_ldt,
    sys::SYS_kexec_file_load,
];
#[cfg(not(target_arch = "x86_64"))]
const NEVER_HERE: &[i64] = &[];

/// Flags of `clone` that make namespaces.
const NAMESPACES: [i32; 8] = [
    sys::CLONE_NEWNS,
    sys::CLONE_NEWCGROUP,
    sys::CLONE_NEWUTS,
    sys::CLONE_NEWIPC,
    sys::CLONE_NEWUSER,
    sys::CLONE_NEWPID,
    sys::CLONE_NEWNET,
    0x80,
];

/// Requests of `ioctl` that put text into a terminal, as if a person had typed it.
const OF_TERMINALS: [u64; 2] = [0x5412, 0x541c];

/// Of calls that send, the arguments that hold flags.
const SENDING: [(i64, u8); 3] = [
    (sys::SYS_sendto, 3),
    (sys::SYS_sendmsg, 2),
    (sys::SYS_sendmmsg, 3),
];

/// The part of a socket's type that is no flag.
const TYPE: u64 = 0xf;

/// The bit of calls of the x32 interface, which has numbers of its own for the same calls.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Applies the filter to this thread and to every program that it starts or becomes.
///
/// # Errors
/// The system has no seccomp.
pub(super) fn apply(network: &Network) -> io::Result<()> {
    let program = program(network).map_err(io::Error::other)?;
    apply_filter(&program).map_err(io::Error::other)
}

fn program(network: &Network) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in NEVER.iter().chain(NEVER_HERE) {
        rules.insert(*call, Vec::new());
    }
    let namespaces = NAMESPACES.iter().map(|flag| u64::from(flag.unsigned_abs()));
    let namespaces = namespaces.map(|flag| rule(&[(0, SeccompCmpOp::MaskedEq(flag), flag)]));
    rules.insert(sys::SYS_clone, namespaces.collect::<Result<_, _>>()?);
    let terminals = OF_TERMINALS.map(|request| rule(&[(1, SeccompCmpOp::Eq, request)]));
    let terminals: Result<_, _> = terminals.into_iter().collect();
    rules.insert(sys::SYS_ioctl, terminals?);
    rules.insert(sys::SYS_socket, sockets(network)?);
    // A limit of the service could end it as a signal does. Of itself, a program says 0.
    let of_others = rule(&[(0, SeccompCmpOp::Ne, 0)])?;
    rules.insert(sys::SYS_prlimit64, vec![of_others]);
    // Data may open a connection by themselves, and some versions of Landlock look at `connect` alone.
    let opens = u64::from(sys::MSG_FASTOPEN.unsigned_abs());
    for (call, flags) in SENDING {
        let sends = rule(&[(flags, SeccompCmpOp::MaskedEq(opens), opens)])?;
        rules.insert(call, vec![sends]);
    }
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(sys::EPERM.unsigned_abs()),
        std::env::consts::ARCH.try_into()?,
    )?;
    let filter: BpfProgram = filter.try_into()?;
    Ok(before().into_iter().chain(filter).collect())
}

/// The sockets that are refused. Without any condition all are. TCP is all that Landlock can bound, and its
/// multipath form is not TCP to Landlock.
fn sockets(network: &Network) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    if *network == Network::None {
        return Ok(Vec::new());
    }
    let [v4, v6] = [sys::AF_INET, sys::AF_INET6].map(|family| u64::from(family.unsigned_abs()));
    let stream = u64::from(sys::SOCK_STREAM.unsigned_abs());
    let tcp = u64::from(sys::IPPROTO_TCP.unsigned_abs());
    let other_types = (0..=TYPE).filter(|kind| *kind != stream);
    let other_types = other_types.map(|kind| rule(&[(1, SeccompCmpOp::MaskedEq(TYPE), kind)]));
    let others = [
        rule(&[(0, SeccompCmpOp::Ne, v4), (0, SeccompCmpOp::Ne, v6)]),
        rule(&[(2, SeccompCmpOp::Ne, 0), (2, SeccompCmpOp::Ne, tcp)]),
    ];
    others.into_iter().chain(other_types).collect()
}

/// Holds for calls of which all conditions hold: the number of an argument, and what it is compared with.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = conditions.iter().map(|(argument, operator, value)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
    });
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

/// What stands before the filter. `clone3` has its flags in memory, where a filter cannot see them: programs take
/// `clone` once they hear that there is no such call.
fn before() -> Vec<sock_filter> {
    let load = sock_filter {
        code: code(sys::BPF_LD | sys::BPF_W | sys::BPF_ABS),
        jt: 0,
        jf: 0,
        k: 0,
    };
    let mut program = vec![load];
    let mut refuse = |test: u32, with: u32, error: i32| {
        program.push(sock_filter {
            code: code(sys::BPF_JMP | test | sys::BPF_K),
            jt: 0,
            jf: 1,
            k: with,
        });
        program.push(sock_filter {
            code: code(sys::BPF_RET | sys::BPF_K),
            jt: 0,
            jf: 0,
            k: sys::SECCOMP_RET_ERRNO | error.unsigned_abs(),
        });
    };
    let clone3 = u32::try_from(sys::SYS_clone3).unwrap_or(u32::MAX);
    refuse(sys::BPF_JEQ, clone3, sys::ENOSYS);
    #[cfg(target_arch = "x86_64")]
    refuse(sys::BPF_JGE, X32, sys::ENOSYS);
    program
}

/// All of them are below 256.
fn code(code: u32) -> u16 {
    u16::try_from(code).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_made_for_every_network() {
        for network in [
            Network::None,
            Network::Loopback,
            Network::Ports(vec![80, 443]),
        ] {
            let program = program(&network).unwrap();
            assert!(program.len() > 100, "{network:?}: {}", program.len());
            assert!(program.len() < 4096, "{network:?}: {}", program.len());
        }
    }
}
