//! The services over a store: each method converts, calls and converts back.

mod convert;
mod copy;
mod documents;
mod journal;
mod list;
mod observe;
mod ownership;
mod session_memory;
mod watch_memory;

use crate::janitor::Janitor;
use crate::port::{Level, Store};
use cairn_proto::memory::document_service_server::DocumentServiceServer;
use cairn_proto::memory::journal_service_server::JournalServiceServer;
use cairn_proto::memory::ownership_service_server::OwnershipServiceServer;
use cairn_proto::memory::session_memory_service_server::SessionMemoryServiceServer;
use cairn_rpc::metrics::{self, gauge};
use cairn_rpc::{MAX_MESSAGE_BYTES, ServerBuilder};
use documents::Documents;
use journal::Journal;
use ownership::Ownership;
use session_memory::SessionMemory;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The largest message that the journal's service takes: a checkpoint of 64 MiB beside the events
/// of an ordinary transition. Clients that read checkpoints have to take as much.
pub const MAX_JOURNAL_MESSAGE_BYTES: usize = 72 * 1024 * 1024;

/// How often the length of the queue is looked at for the metrics.
const QUEUE_INTERVAL: Duration = Duration::from_secs(5);

/// The memory service, ready to be registered. Cheap to clone.
#[derive(Clone)]
pub struct Memory {
    store: Arc<dyn Store>,
    janitor: Arc<Janitor>,
}

impl Memory {
    /// The service over a store that is open already. Only sessions with a time to live end.
    pub fn over(store: Arc<dyn Store>) -> Self {
        let janitor = Arc::new(Janitor::new(store.clone(), None, None));
        Self { store, janitor }
    }

    /// The same with another way to end sessions.
    pub(crate) fn with_janitor(self, janitor: Janitor) -> Self {
        let janitor = Arc::new(janitor);
        Self { janitor, ..self }
    }

    /// The store itself, for whoever shares the process with it.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Registers everything, for Cairn's own services.
    #[must_use]
    pub fn register_internal(&self, builder: ServerBuilder) -> ServerBuilder {
        let store = || self.store.clone();
        let journal = JournalServiceServer::new(Journal::new(store()))
            .max_decoding_message_size(MAX_JOURNAL_MESSAGE_BYTES);
        let ownership = OwnershipServiceServer::new(Ownership::new(store()))
            .max_decoding_message_size(MAX_MESSAGE_BYTES);
        let documents = DocumentServiceServer::new(Documents::new(store()))
            .max_decoding_message_size(MAX_MESSAGE_BYTES);
        let builder = builder
            .register(journal, cairn_proto::DESCRIPTORS)
            .register(ownership, cairn_proto::DESCRIPTORS)
            .register(documents, cairn_proto::DESCRIPTORS);
        self.register_public(builder)
    }

    /// Registers what clients from outside may call: session memory.
    #[must_use]
    pub fn register_public(&self, builder: ServerBuilder) -> ServerBuilder {
        let service = SessionMemoryServiceServer::new(SessionMemory::new(self.store.clone()))
            .max_decoding_message_size(MAX_MESSAGE_BYTES);
        builder.register(service, cairn_proto::DESCRIPTORS)
    }
}

impl Memory {
    /// Ends sessions whose time has come, for as long as the future is polled and the store is
    /// open. Every process over a store may do so.
    pub async fn end_sessions(&self) {
        self.janitor.run().await;
    }

    /// Shows how much work waits, for as long as the future is polled.
    pub async fn watch_queue(&self) {
        let first = Instant::now() + QUEUE_INTERVAL;
        let mut ticks = tokio::time::interval_at(first, QUEUE_INTERVAL);
        loop {
            ticks.tick().await;
            if let Ok(queued) = self.store.queued(Level::HIGHEST).await {
                gauge!(metrics::QUEUE_SESSIONS).set(queued as f64);
            }
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}
