//! The escapes.

/// One attempt: a command that prints `ESCAPED` if it gets what it wants.
pub(crate) struct Escape {
    pub(crate) name: &'static str,
    pub(crate) command: &'static str,
    pub(crate) control: Control,
    pub(crate) ends: Ends,
}

/// Whether the attempt must succeed without confinement. If it would not, it would show nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    Always,
    /// For the superuser, or never asked for where a container may refuse it.
    No,
}

/// Attempts that only mounts of the program's own stop.
pub(crate) const OF_MOUNTS: [&str; 5] = [
    "open a file to all",
    "close a file to its user",
    "set the user of a program",
    "change a file's time",
    "change the owner of a file",
];
/// Attempts that only Landlock from version 6 on stops.
pub(crate) const OF_SIGNALS: [&str; 7] = [
    "signal the service",
    "signal another program",
    "stop another program",
    "signal by a descriptor",
    "signal the supervising process",
    "kill the supervising process",
    KILL_ALL,
];

/// It is tried only where nothing before it has escaped, as the superuser's signal reaches everything.
pub(crate) const KILL_ALL: &str = "kill all";

/// How an attempt ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// It gets nothing.
    Refused,
    /// It gets it, and the result names this.
    Named(&'static str),
}

const fn refused(name: &'static str, command: &'static str) -> Escape {
    Escape {
        name,
        command,
        control: Control::Always,
        ends: Ends::Refused,
    }
}

const fn alone(name: &'static str, command: &'static str) -> Escape {
    Escape {
        name,
        command,
        control: Control::No,
        ends: Ends::Refused,
    }
}

const fn named(name: &'static str, file: &'static str, command: &'static str) -> Escape {
    Escape {
        name,
        command,
        control: Control::Always,
        ends: Ends::Named(file),
    }
}

/// To approve one's own call.
pub(crate) const APPROVE: &[Escape] = &[
    refused(
        "approve by the socket",
        "perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0) && connect(S, sockaddr_un(\"{AT}/state/cairn.sock\")) && print \"ESCAPED\"'",
    ),
    refused(
        "approve by the program, which calls a port",
        "perl -MSocket -e 'socket(S, PF_INET, SOCK_STREAM, 0) && connect(S, sockaddr_in({PORT}, inet_aton(\"127.0.0.1\"))) && print \"ESCAPED\"'",
    ),
    refused(
        "read the token",
        "cat {AT}/state/7878.token && echo ESCAPED",
    ),
    refused(
        "read the database",
        "cat {AT}/state/cairn.db && echo ESCAPED",
    ),
    refused(
        "write the database",
        "echo approved >>{AT}/state/cairn.db && echo ESCAPED",
    ),
    refused(
        "move the store away",
        "mv {AT}/state {AT}/ws/mine && echo ESCAPED",
    ),
    refused(
        "put a store in its place",
        "echo x >new && mv new {AT}/state/cairn.db && echo ESCAPED",
    ),
    refused(
        "confirm a file",
        "echo '{}' >{AT}/state/trust.json && echo ESCAPED",
    ),
    refused(
        "list the store's folder",
        "ls {AT}/state | grep -q token && echo ESCAPED",
    ),
    refused(
        "read the service's environment",
        "tr '\\0' '\\n' </proc/{DECOY}/environ | grep -q SECRET && echo ESCAPED",
    ),
    refused(
        "reach files by the service's folder",
        "cat /proc/{SERVICE}/root{AT}/outside && echo ESCAPED",
    ),
    refused(
        "see the files of another program",
        "readlink /proc/{DECOY}/fd/0 && echo ESCAPED",
    ),
    alone(
        "read the service's memory",
        "head -c 1 /proc/{SERVICE}/mem && echo ESCAPED",
    ),
    alone(
        "have the service's key",
        "env | grep -q canary && echo ESCAPED",
    ),
    refused(
        "have the service's files",
        "ls /proc/self/fd | grep -qE '^([4-9]|[1-9][0-9]+)$' && echo ESCAPED",
    ),
];

/// To change what decides or runs later.
pub(crate) const RULES: &[Escape] = &[
    named(
        "change the rules",
        "cairn.toml",
        "echo '# allow' >>cairn.toml && echo ESCAPED",
    ),
    named(
        "delete the rules",
        "cairn.toml",
        "rm cairn.toml && echo ESCAPED",
    ),
    named(
        "change the rules in a file of another name",
        "mine.toml",
        "echo '# allow' >>mine.toml && echo ESCAPED",
    ),
    named(
        "add a server",
        ".mcp.json",
        "echo '{}' >.mcp.json && echo ESCAPED",
    ),
    named(
        "instruct the next agent",
        "AGENTS.md",
        "echo obey >AGENTS.md && echo ESCAPED",
    ),
    named(
        "instruct it by the other name",
        "CLAUDE.md",
        "echo obey >CLAUDE.md && echo ESCAPED",
    ),
    named(
        "leave a git hook",
        ".git/hooks/pre-commit",
        "echo true >.git/hooks/pre-commit && echo ESCAPED",
    ),
    named(
        "link the hooks elsewhere",
        ".git/hooks",
        "rmdir .git/hooks && ln -s ../h .git/hooks && echo ESCAPED",
    ),
    named(
        "name hooks elsewhere",
        ".git/config",
        "echo '[core] hooksPath = h' >.git/config && echo ESCAPED",
    ),
    named(
        "leave a skill",
        ".claude/skills/x/SKILL.md",
        "mkdir -p .claude/skills/x && echo x >.claude/skills/x/SKILL.md && echo ESCAPED",
    ),
    named(
        "change a prompt",
        "prompts/planner.md",
        "echo x >prompts/planner.md && echo ESCAPED",
    ),
    named(
        "change a file and fail",
        "cairn.toml",
        "echo '# x' >>cairn.toml && echo ESCAPED; exit 3",
    ),
    refused(
        "change the user's git",
        "echo '[core]' >>{AT}/home/.gitconfig && echo ESCAPED",
    ),
    refused(
        "change the user's shell",
        "echo x >>{AT}/home/.bashrc && echo ESCAPED",
    ),
];

/// Files elsewhere.
pub(crate) const FILES: &[Escape] = &[
    refused(
        "read a key of the user",
        "cat {AT}/home/.ssh/id && echo ESCAPED",
    ),
    refused(
        "list the user's home",
        "ls -a {AT}/home | grep -q ssh && echo ESCAPED",
    ),
    refused(
        "write a file elsewhere",
        "echo x >{AT}/outside && echo ESCAPED",
    ),
    refused(
        "make a file elsewhere",
        "echo x >{AT}/other/new && echo ESCAPED",
    ),
    refused(
        "delete a file elsewhere",
        "rm -f {AT}/other/file && echo ESCAPED",
    ),
    refused(
        "cut a file elsewhere",
        "perl -e 'truncate(\"{AT}/outside\", 0) and print \"ESCAPED\"'",
    ),
    refused(
        "read by a link",
        "ln -s {AT}/outside in && cat in && echo ESCAPED",
    ),
    refused(
        "write by a link",
        "ln -s {AT}/outside in && echo x >in && echo ESCAPED",
    ),
    refused(
        "link a file into the workspace",
        "ln {AT}/outside in && echo ESCAPED",
    ),
    refused(
        "move a file into the workspace",
        "mv {AT}/other/file . && echo ESCAPED",
    ),
    refused(
        "move a file out",
        "echo x >f && mv f {AT}/other/f && echo ESCAPED",
    ),
    refused(
        "swap files",
        "perl -e 'rename(\"{AT}/outside\", \"in\") and print \"ESCAPED\"'",
    ),
    refused(
        "open a file to all",
        "chmod 777 {AT}/outside && echo ESCAPED",
    ),
    refused(
        "close a file to its user",
        "chmod 0 {AT}/home/.ssh/id && echo ESCAPED",
    ),
    refused(
        "set the user of a program",
        "chmod 6755 {AT}/other/file && echo ESCAPED",
    ),
    refused(
        "change a file's time",
        "touch -t 200001010000 {AT}/outside && echo ESCAPED",
    ),
    refused(
        "make a folder elsewhere",
        "mkdir {AT}/other/folder && echo ESCAPED",
    ),
    refused(
        "make a pipe elsewhere",
        "mkfifo {AT}/other/pipe && echo ESCAPED",
    ),
    refused(
        "reach out by /proc/self/root",
        "echo x >/proc/self/root{AT}/outside && echo ESCAPED",
    ),
    refused(
        "reach out by /proc/self/cwd",
        "cat /proc/self/cwd/../outside && echo ESCAPED",
    ),
    alone(
        "leave a file in /tmp",
        "echo x >/tmp/escape-{DECOY} && echo ESCAPED",
    ),
    alone(
        "write below the folders of other commands",
        "mkdir $TMPDIR/../escape && echo ESCAPED",
    ),
    alone("read the passwords", "cat /etc/shadow && echo ESCAPED"),
    alone("make a device", "mknod disk b 8 0 && echo ESCAPED"),
    alone(
        "change the owner of a file",
        "chown 12345 {AT}/outside && echo ESCAPED",
    ),
    alone(
        "read the memory of the system",
        "head -c 1 /proc/kcore && echo ESCAPED",
    ),
    alone("open a terminal", "(exec 3<>/dev/tty) && echo ESCAPED"),
    alone(
        "open the memory device",
        "(exec 3</dev/mem) && echo ESCAPED",
    ),
    alone(
        "write a setting of the system",
        "v=$(cat /proc/sys/vm/swappiness) && echo $v >/proc/sys/vm/swappiness && echo ESCAPED",
    ),
    alone(
        "make a control group",
        "mkdir /sys/fs/cgroup/escape && echo ESCAPED",
    ),
    alone(
        "press a key of the system",
        "echo h >/proc/sysrq-trigger && echo ESCAPED",
    ),
];

/// Other processes.
pub(crate) const PROCESSES: &[Escape] = &[
    refused("signal the service", "kill -0 {SERVICE} && echo ESCAPED"),
    refused("signal another program", "kill -0 {DECOY} && echo ESCAPED"),
    refused(
        "stop another program",
        "kill -STOP {DECOY} && kill -CONT {DECOY} && echo ESCAPED",
    ),
    refused(
        "signal by a descriptor",
        "perl -e '$f = syscall({SYS_pidfd_open}, {DECOY}, 0); print \"ESCAPED\" if $f >= 0 && syscall({SYS_pidfd_send_signal}, $f, 0, 0, 0) == 0'",
    ),
    refused(
        "let another program be ended first",
        "echo 999 >/proc/{DECOY}/oom_score_adj && echo ESCAPED",
    ),
    alone(
        "signal the supervising process",
        "kill -0 $PPID && echo ESCAPED",
    ),
    alone(
        "kill the supervising process",
        "kill -9 $PPID && echo ESCAPED",
    ),
    alone(KILL_ALL, "kill -9 -1; true"),
    alone(
        "gain rights by a program",
        "grep -q 'NoNewPrivs:.*0' /proc/self/status && echo ESCAPED",
    ),
    alone(
        "have rights over the system",
        "perl -ne 'print \"ESCAPED\" if /^CapEff:\\s*(\\w+)/ && hex($1) & ~0xfb' /proc/self/status",
    ),
    alone(
        "leave a dump of memory",
        "test \"$(ulimit -c)\" != 0 && echo ESCAPED",
    ),
    alone(
        "open too many files",
        "test \"$(ulimit -n)\" -gt 65536 && echo ESCAPED",
    ),
];

/// Calls of the system that end with "not permitted" or "not implemented": the name, the number and the arguments.
pub(crate) const CALLS: &[(&str, i64, &str)] = &[
    ("ptrace", libc::SYS_ptrace, "16, {DECOY}, 0, 0"),
    (
        "process_vm_readv",
        libc::SYS_process_vm_readv,
        "{DECOY}, 0, 0, 0, 0, 0",
    ),
    (
        "process_vm_writev",
        libc::SYS_process_vm_writev,
        "{DECOY}, 0, 0, 0, 0, 0",
    ),
    ("pidfd_getfd", libc::SYS_pidfd_getfd, "0, 0, 0"),
    ("kcmp", libc::SYS_kcmp, "{DECOY}, {DECOY}, 0, 0, 0"),
    ("io_uring_setup", libc::SYS_io_uring_setup, "1, 0"),
    (
        "io_uring_enter",
        libc::SYS_io_uring_enter,
        "0, 0, 0, 0, 0, 0",
    ),
    ("mount", libc::SYS_mount, "0, 0, 0, 0, 0"),
    ("umount2", libc::SYS_umount2, "0, 0"),
    ("move_mount", libc::SYS_move_mount, "0, 0, 0, 0, 0"),
    ("open_tree", libc::SYS_open_tree, "0, 0, 0"),
    ("fsopen", libc::SYS_fsopen, "0, 0"),
    ("mount_setattr", libc::SYS_mount_setattr, "0, 0, 0, 0, 0"),
    ("pivot_root", libc::SYS_pivot_root, "0, 0"),
    ("chroot", libc::SYS_chroot, "0"),
    ("unshare of users", libc::SYS_unshare, "0x10000000"),
    ("unshare of mounts", libc::SYS_unshare, "0x20000"),
    (
        "clone into a namespace",
        libc::SYS_clone,
        "0x10000011, 0, 0, 0, 0",
    ),
    ("setns", libc::SYS_setns, "0, 0"),
    ("clone3", libc::SYS_clone3, "0, 0"),
    ("open_by_handle_at", libc::SYS_open_by_handle_at, "0, 0, 0"),
    ("bpf", libc::SYS_bpf, "0, 0, 0"),
    (
        "perf_event_open",
        libc::SYS_perf_event_open,
        "0, 0, 0, 0, 0",
    ),
    ("userfaultfd", libc::SYS_userfaultfd, "1"),
    ("keyctl", libc::SYS_keyctl, "0, -3, 0, 0, 0"),
    ("add_key", libc::SYS_add_key, "0, 0, 0, 0, 0"),
    ("request_key", libc::SYS_request_key, "0, 0, 0, 0"),
    ("init_module", libc::SYS_init_module, "0, 0, 0"),
    ("kexec_load", libc::SYS_kexec_load, "0, 0, 0, 0"),
    ("reboot", libc::SYS_reboot, "0, 0, 0, 0"),
    ("swapon", libc::SYS_swapon, "0, 0"),
    ("settimeofday", libc::SYS_settimeofday, "0, 0"),
    ("shmget", libc::SYS_shmget, "0, 4096, 0600"),
    ("msgget", libc::SYS_msgget, "0, 0600"),
    ("semget", libc::SYS_semget, "0, 1, 0600"),
    ("mq_open", libc::SYS_mq_open, "0, 0, 0, 0"),
    ("text for a terminal", libc::SYS_ioctl, "0, 0x5412, 0"),
    ("a socket of IPv4", libc::SYS_socket, "2, 1, 0"),
    ("a socket of IPv6", libc::SYS_socket, "10, 1, 0"),
    ("a socket for datagrams", libc::SYS_socket, "2, 2, 0"),
    ("a raw socket", libc::SYS_socket, "2, 3, 1"),
    ("a socket of this machine", libc::SYS_socket, "1, 1, 0"),
    ("a socket of the kernel", libc::SYS_socket, "16, 3, 0"),
    ("a socket of packets", libc::SYS_socket, "17, 3, 0"),
    (
        "a socket of a virtual machine",
        libc::SYS_socket,
        "40, 1, 0",
    ),
    ("multipath TCP", libc::SYS_socket, "2, 1, 262"),
    (
        "a limit of another program",
        libc::SYS_prlimit64,
        "{DECOY}, 0, 0, 0",
    ),
    #[cfg(target_arch = "x86_64")]
    (
        "a socket by the x32 interface",
        0x4000_0000 | libc::SYS_socket,
        "2, 1, 0",
    ),
];
