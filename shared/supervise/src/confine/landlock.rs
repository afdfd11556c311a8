//! Files, ports and signals of a confined program: Landlock.

use super::bounds::{Bounds, Network};
use super::namespaces;
use ::landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, LandlockStatus,
    NetPort, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus,
    Scope, path_beneath_rules,
};
use rustix::io::Errno;
use rustix::process::{getppid, test_kill_process};
use std::io;
use std::path::PathBuf;

/// The least that confines: below it, files anywhere could be cut to nothing.
const LEAST: ABI = ABI::V3;
/// The first that governs ports.
const PORTS: ABI = ABI::V4;
/// The first that governs signals.
const SIGNALS: ABI = ABI::V6;
/// The newest that is made use of.
const NEWEST: ABI = ABI::V9;

/// Devices that every program uses, and that keep nothing.
const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// The version of Landlock that the system has; 0 without one that confines. A thread is confined to find out, and
/// ends.
pub(super) fn version() -> u8 {
    let found = std::thread::spawn(|| {
        let ruleset = Ruleset::default().handle_access(AccessFs::MakeBlock)?;
        ruleset.create()?.restrict_self()
    });
    let found = match found.join() {
        Ok(Ok(status)) => status.landlock,
        _ => return 0,
    };
    let LandlockStatus::Available { effective_abi, .. } = found else {
        return 0;
    };
    let versions = [
        (LEAST, 3),
        (PORTS, 4),
        (ABI::V5, 5),
        (SIGNALS, 6),
        (ABI::V7, 7),
        (ABI::V8, 8),
        (ABI::V9, 9),
        (ABI::V10, 10),
    ];
    let held = versions.iter().filter(|(abi, _)| *abi <= effective_abi);
    held.map(|(_, number)| *number).max().unwrap_or_default()
}

/// Confines this thread, and the programs that it starts or becomes.
///
/// # Errors
/// The system cannot hold the bounds: nothing may be started then.
pub(super) fn apply(bounds: &Bounds, own: &[PathBuf]) -> io::Result<()> {
    let ruleset = ruleset(bounds, own).map_err(io::Error::other)?;
    let status = ruleset.restrict_self().map_err(io::Error::other)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err(io::Error::other("the system has no Landlock")),
        _ => Ok(()),
    }
}

fn ruleset(bounds: &Bounds, own: &[PathBuf]) -> Result<RulesetCreated, ::landlock::RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(LEAST))?;
    if let Network::Ports(_) = bounds.network {
        ruleset = ruleset.handle_access(AccessNet::from_all(PORTS))?;
    }
    let mut ruleset = ruleset
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(SIGNALS))?
        .create()?;
    let read = AccessFs::from_read(NEWEST);
    let devices = read | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let devices = devices & !BitFlags::from(AccessFs::Execute);
    let change = AccessFs::from_all(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    ruleset = ruleset
        .add_rules(path_beneath_rules(&bounds.read, read))?
        .add_rules(path_beneath_rules(DEVICES, devices))?
        .add_rules(path_beneath_rules(&bounds.write, change))?
        .add_rules(path_beneath_rules(own, change))?;
    if bounds.mounts {
        // It is the program's own.
        ruleset = ruleset.add_rules(path_beneath_rules([namespaces::SHARED], change))?;
    }
    if let Network::Ports(ports) = &bounds.network {
        for port in ports {
            ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::from_all(PORTS)))?;
        }
    }
    Ok(ruleset)
}

/// Lets this process, and everything below it, signal only one another. Returns whether that holds: then a
/// signal to all processes that it may signal reaches these, at one moment and without exception. It must have
/// one thread, and a parent that is not below it.
pub(super) fn enclose() -> bool {
    let enclosed = || {
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::Refer)?
            .scope(Scope::Signal)?;
        // Moves between folders are refused below every ruleset that does not allow them.
        let everywhere = path_beneath_rules(["/"], AccessFs::Refer);
        ruleset.create()?.add_rules(everywhere)?.restrict_self()
    };
    let is_enforced = enclosed().is_ok_and(|status| status.ruleset == RulesetStatus::FullyEnforced);
    // All processes of the user would end by a mistake here.
    let parent = getppid().map(test_kill_process);
    is_enforced && parent == Some(Err(Errno::PERM))
}
