//! What `deploy/prove crash` takes.

use clap::{Args, ValueEnum};

/// How long and how hard the loop is. The defaults are the long form.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Continue until there were this many kills
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub(crate) kills: usize,
    /// What is done, and in which order
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Clients at the same time
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) drivers: usize,
    /// How Redis writes. Anything less than `always` loses acknowledged writes, which shows that the
    /// loop finds losses
    #[arg(long, value_name = "VALUE", default_value = "always", value_parser = ["always", "everysec", "no"])]
    pub(crate) appendfsync: String,
    /// How long a suspended process keeps its sessions
    #[arg(long, value_name = "TIME", default_value = "3s")]
    pub(crate) lease: String,
    /// Keep the disk busy with other writes
    #[arg(long)]
    pub(crate) noisy_disk: bool,
    /// Keep logs, ledger and the store's log also if nothing was found
    #[arg(long)]
    pub(crate) keep: bool,
    /// Use a Redis Cluster of three servers
    #[arg(long)]
    pub(crate) cluster: bool,
    /// Take a check out of the store: the loop has to find something then. Without duplicates it
    /// does soon, without fencing within some 300 kills
    #[arg(long, value_name = "CHECK")]
    pub(crate) without: Option<Check>,
}

/// A check of the store that a proof can take out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Check {
    /// Refuse writes of former owners, and the owners' own look at the end of their leases
    Fencing,
    /// Recognise an operation that is sent again
    Duplicates,
}

impl Options {
    /// The short form that the suite runs.
    pub(crate) fn short() -> Self {
        Self {
            kills: 60,
            seed: 1,
            drivers: 8,
            appendfsync: "always".to_owned(),
            lease: "3s".to_owned(),
            noisy_disk: false,
            keep: false,
            cluster: false,
            without: None,
        }
    }

    /// The value of `CAIRN_SABOTAGE` for the services.
    pub(crate) fn sabotage(&self) -> &'static str {
        match self.without {
            None => "",
            Some(Check::Fencing) => "fencing,leases",
            Some(Check::Duplicates) => "duplicates",
        }
    }
}
