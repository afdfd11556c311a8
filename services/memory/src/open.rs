//! From a configuration to the service over its store.

use crate::Deps;
use crate::config::{Config, StoreConfig};
use crate::error::BuildError;
use crate::grpc::Memory;
use crate::janitor::{Archive, Janitor};
use crate::port::Store;
use crate::redis::{Durability, RedisOptions, RedisStore};
use crate::sqlite::{SqliteOptions, SqliteStore};
use std::sync::Arc;
use tokio::sync::watch;

/// The service with what was found out about its store.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The service.
    pub memory: Memory,
    /// Whether the store keeps what it answered, as far as is known at a time.
    pub durability: watch::Receiver<Durability>,
    /// How many losses of acknowledged writes have been found since, if the store can have any.
    pub losses: Option<watch::Receiver<u64>>,
    /// What keeps the store from its work for now, if it can be away.
    pub outages: Option<watch::Receiver<Vec<String>>>,
}

/// Opens the store and makes the service. Blocks while the store is opened.
///
/// # Errors
/// A limit that makes no sense; an archive that cannot be written; a store that cannot be opened, see
/// [`sqlite::OpenError`](crate::sqlite::OpenError) and
/// [`redis::OpenError`](crate::redis::OpenError).
pub fn build(config: Config, deps: Deps) -> Result<Memory, BuildError> {
    Ok(open(config, deps)?.memory)
}

/// The same, and tells how durable the store is.
///
/// # Errors
/// As [`build`].
pub fn open(config: Config, deps: Deps) -> Result<Opened, BuildError> {
    config.check()?;
    let (limits, store) = (config.limits.clone(), config.store.clone());
    let retain = config.retain;
    // Before the store, which is made if there is none.
    let archive = config.archive.map(Archive::open).transpose()?;
    let embedded = || SqliteOptions {
        limits: config.limits,
        clock: deps.clock,
        local_owners: deps.local_owners,
        max_pages: config.max_pages,
        readers: config.readers,
        accept_loss: false,
        #[cfg(debug_assertions)]
        commit_hook: deps.commit_hook.clone(),
        #[cfg(debug_assertions)]
        sabotage: deps.sabotage,
    };
    let fixed = |durability| watch::Sender::new(durability).subscribe();
    let (mut durability, mut losses, mut outages) = (fixed(Durability::Durable), None, None);
    let store: Arc<dyn Store> = match store {
        StoreConfig::Sqlite { path } => {
            let store = SqliteStore::open(path, embedded())?;
            let outage = store.outage().map(|why| vec![why.to_owned()]);
            outages = outage.map(|outage| watch::Sender::new(outage).subscribe());
            Arc::new(store)
        }
        StoreConfig::Memory => {
            let reasons = vec!["the store is in memory: it ends with the process".to_owned()];
            durability = fixed(Durability::Degraded { reasons });
            Arc::new(SqliteStore::in_memory(embedded())?)
        }
        StoreConfig::Redis(config) => {
            let options = RedisOptions {
                limits,
                #[cfg(debug_assertions)]
                commit_hook: deps.commit_hook,
                #[cfg(debug_assertions)]
                sabotage: deps.sabotage,
                ..RedisOptions::default()
            };
            let store = RedisStore::open_blocking(&config, options)?;
            durability = store.durability();
            losses = Some(store.losses());
            outages = Some(store.outages());
            Arc::new(store)
        }
    };
    durability.borrow().tell(&Durability::Durable);
    let janitor = Janitor::new(store.clone(), retain, archive);
    let memory = Memory::over(store).with_janitor(janitor);
    Ok(Opened {
        memory,
        durability,
        losses,
        outages,
    })
}
