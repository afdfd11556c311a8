//! What `deploy/crash-loop` sets.

use cairn_boot::Environment;

/// How long and how hard the loop is.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) kills: usize,
    pub(crate) seed: u64,
    pub(crate) drivers: usize,
    pub(crate) appendfsync: String,
    /// How long a session stays a process's own without a sign of life.
    pub(crate) lease: String,
    pub(crate) noisy_disk: bool,
    /// Keep everything also if nothing is wrong.
    pub(crate) keep: bool,
    /// The store is a cluster of three servers.
    pub(crate) is_cluster: bool,
    /// Checks that the services do without.
    pub(crate) without: String,
}

impl Settings {
    /// The settings of an environment; the short form without any.
    pub(crate) fn of(environment: &Environment) -> Self {
        let number = |name: &str, usual: u64| {
            let given = environment.get(name);
            given.map_or(usual, |given| {
                let number = given.parse();
                number.unwrap_or_else(|_| panic!("{name} is not a number: {given}"))
            })
        };
        let text = |name: &str| environment.get(name).map(str::to_owned);
        Self {
            kills: number("CAIRN_CRASH_KILLS", 60) as usize,
            seed: number("CAIRN_CRASH_SEED", 1),
            drivers: number("CAIRN_CRASH_DRIVERS", 8) as usize,
            appendfsync: text("CAIRN_CRASH_APPENDFSYNC").unwrap_or_else(|| "always".to_owned()),
            lease: text("CAIRN_CRASH_LEASE").unwrap_or_else(|| "3s".to_owned()),
            noisy_disk: text("CAIRN_CRASH_NOISY_DISK").is_some(),
            keep: text("CAIRN_CRASH_KEEP").is_some(),
            is_cluster: text("CAIRN_CRASH_CLUSTER").is_some(),
            without: text("CAIRN_CRASH_WITHOUT").unwrap_or_default(),
        }
    }
}
