//! A watcher that was away, for each kind of gap. Memory runs in this process, with room for few tombstones.

use super::differences;
use super::writer::{Change, Documents, Held, delete, fill, listed, of_process, put};
use cairn_memory::Memory;
use cairn_memory::error::RELIST;
use cairn_proto::memory::{
    DocumentKind, DocumentPosition, ListDocumentsRequest, WatchDocumentsRequest,
};
use cairn_rpc::{Exposure, RpcError, ServerBuilder};
use cairn_testkit::TestStore;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Not the kind of the kills, so that both can be in one store.
const KIND: DocumentKind = DocumentKind::Page;
/// More tombstones than this and there are documents, and the oldest go.
const SPARE: usize = 200;
/// Documents that are put and deleted at the same time.
const AT_ONCE: usize = 64;
/// Changes of a short gap.
const FEW: usize = 10;
const PATIENCE: Duration = Duration::from_secs(60);
/// The files of a store.
const FILES: [&str; 2] = ["cairn.db", "cairn.db-wal"];

/// Memory over a store.
async fn open(store: &TestStore, folder: &Path, documents: usize) -> (Memory, Documents) {
    let mut config = cairn_memory::Config::default();
    config.store = match store.is_file() {
        true => cairn_memory::StoreConfig::Sqlite {
            path: folder.join("cairn.db"),
        },
        false => serde_json::from_value(store.config()).expect("a store"),
    };
    config.limits.documents = u64::try_from(documents + SPARE).expect("a number");
    let memory = cairn_memory::build(config, cairn_memory::Deps::default());
    let memory: Memory = memory.expect("a store");
    let builder = memory.register_internal(ServerBuilder::new(Exposure::Internal));
    let link = builder.build().await.expect("memory").link();
    (memory, Documents::new(link))
}

/// What a watcher knows.
#[derive(Debug, Clone, Default)]
struct Known {
    held: Held,
    position: Option<DocumentPosition>,
}

impl Known {
    /// Watches until it has caught up, and returns the number of documents that came. Memory may ask it to begin
    /// anew: then that is the error.
    async fn catch_up(&mut self, documents: &Documents) -> Result<usize, String> {
        let request = WatchDocumentsRequest {
            kind: KIND.into(),
            after: self.position.clone(),
        };
        let reason =
            |status: tonic::Status| RpcError::from_status(&status).reason_name().to_owned();
        let stream = documents.clone().watch_documents(of_process(request)).await;
        let mut stream = stream.map_err(reason)?.into_inner();
        let mut came = 0;
        loop {
            let message = timeout(PATIENCE, stream.message()).await;
            let message = message.expect("a message in time").map_err(reason)?;
            let message = message.expect("no end of the stream");
            self.position = message.position;
            if message.documents.is_empty() {
                return Ok(came);
            }
            came += message.documents.len();
            let changes = message.documents.into_iter().map(Change::of);
            changes.for_each(|change| change.apply(&mut self.held));
        }
    }

    /// The same for one that is asked to begin anew, and does.
    async fn begin_anew(&mut self, documents: &Documents, why: &str) {
        let refused = self.catch_up(documents).await;
        assert_eq!(refused, Err(RELIST.to_owned()), "{why}");
        *self = Self::default();
        let came = self.catch_up(documents).await;
        assert!(came.is_ok(), "{why}: {came:?}");
    }

    fn check(&self, expected: &Held, what: &str) {
        let differences = differences(what, &self.held, expected);
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}

/// Proves each gap over a store, and panics with the first that a watcher cannot bridge.
pub(super) async fn prove(
    store: &TestStore,
    other: Option<&TestStore>,
    name: &str,
    documents: usize,
) {
    let folder = tempfile::tempdir().expect("a folder");
    let (memory, client) = open(store, folder.path(), documents).await;
    let mut expected = Held::new();
    let mut filled = fill(&client, KIND, documents).await;
    filled.sort_unstable_by_key(|change| change.version);
    filled.iter().for_each(|change| change.apply(&mut expected));
    let began = Instant::now();
    let mut watcher = Known::default();
    assert_eq!(watcher.catch_up(&client).await, Ok(documents));
    watcher.check(&expected, "a watcher of all");
    println!(
        "{name}: {documents} documents watched in {:.1?}",
        began.elapsed()
    );

    few_changes(&client, &mut watcher, &mut expected).await;
    interrupted_listing(&client, &mut expected).await;
    assert!(
        watcher.catch_up(&client).await.is_ok(),
        "it is not far behind"
    );
    tombstones_gone(&client, &mut watcher, &mut expected, documents).await;
    assert_eq!(listed(&client, KIND).await, expected, "the listing");
    replaced(memory, client, (store, other, folder.path()), watcher).await;
    println!(
        "{name}: few changes, an interrupted listing, tombstones and a replaced store were bridged"
    );
}

/// Some changes while the watcher is away: those come, and nothing else.
async fn few_changes(client: &Documents, watcher: &mut Known, expected: &mut Held) {
    let ids: Vec<String> = expected.keys().take(FEW).cloned().collect();
    for (number, id) in ids.iter().enumerate() {
        let operation = format!("few-{id}");
        let change = match number % 2 {
            0 => put(client, KIND, id, &operation).await,
            _ => delete(client, KIND, id, &operation)
                .await
                .expect("a document"),
        };
        change.apply(expected);
    }
    assert_eq!(watcher.catch_up(client).await, Ok(ids.len()), "few changes");
    watcher.check(expected, "after few changes");
}

/// Documents change and go between two pages of a listing.
async fn interrupted_listing(client: &Documents, expected: &mut Held) {
    let request = ListDocumentsRequest {
        kind: KIND.into(),
        after: None,
        page_size: 50,
    };
    let page = client.clone().list_documents(of_process(request)).await;
    let page = page.expect("a page").into_inner();
    let mut reader = Known {
        position: page.position,
        ..Known::default()
    };
    let changes = page.documents.into_iter().map(Change::of);
    changes.for_each(|change| change.apply(&mut reader.held));
    // One that the page has, and one that a later page would have.
    let read = reader.held.keys().next_back().cloned().expect("a document");
    let unread = expected.keys().find(|id| !reader.held.contains_key(*id));
    let unread = unread.cloned().expect("more documents than a page has");
    for id in [&read, &unread] {
        let gone = delete(client, KIND, id, &format!("between-{id}")).await;
        gone.expect("a document").apply(expected);
    }
    put(client, KIND, "between", "between")
        .await
        .apply(expected);
    assert!(
        reader.catch_up(client).await.is_ok(),
        "the listing continues"
    );
    reader.check(expected, "after an interrupted listing");
}

/// A document is deleted, and its tombstone goes, because there are too many.
async fn tombstones_gone(
    client: &Documents,
    watcher: &mut Known,
    expected: &mut Held,
    documents: usize,
) {
    let id = expected.keys().next().cloned().expect("a document");
    let gone = delete(client, KIND, &id, "forgotten").await;
    gone.expect("a document").apply(expected);
    let numbers: Vec<usize> = (0..=documents + SPARE).collect();
    for some in numbers.chunks(AT_ONCE) {
        let mut tasks = JoinSet::new();
        for number in some {
            let (client, id) = (client.clone(), format!("t-{number}"));
            tasks.spawn(async move {
                put(&client, KIND, &id, &format!("put-{id}")).await;
                delete(&client, KIND, &id, &format!("delete-{id}")).await
            });
        }
        let deleted = tasks.join_all().await;
        assert!(deleted.iter().all(Option::is_some), "each was there");
    }
    watcher.begin_anew(client, "the tombstones are gone").await;
    watcher.check(expected, "after its tombstones went");
}

/// The store lacks the last confirmed change, and has as many others in its place.
async fn replaced(
    memory: Memory,
    client: Documents,
    (store, other, folder): (&TestStore, Option<&TestStore>, &Path),
    mut watcher: Known,
) {
    let elsewhere = tempfile::tempdir().expect("a folder");
    let documents = watcher.held.len();
    if store.is_file() {
        memory.store().close().await;
        drop((memory, client));
        copy(folder, elsewhere.path());
        let (memory, client) = open(store, folder, documents).await;
        // An opening is a store of its own, for it may be that of a copy.
        watcher
            .begin_anew(&client, "the file was opened again")
            .await;
        put(&client, KIND, "lost", "lost").await;
        assert_eq!(watcher.catch_up(&client).await, Ok(1));
        memory.store().close().await;
    } else {
        put(&client, KIND, "lost", "lost").await;
        assert_eq!(watcher.catch_up(&client).await, Ok(1));
        memory.store().close().await;
    }
    let (memory, client) = open(other.unwrap_or(store), elsewhere.path(), documents).await;
    let counter = watcher
        .position
        .as_ref()
        .map_or(0, |position| position.counter);
    // As many changes as the watcher knows, so that its number alone says nothing.
    let mut changes = 0;
    loop {
        let written = put(&client, KIND, "others", &format!("others-{changes}")).await;
        changes += 1;
        if written.version >= counter {
            break;
        }
    }
    watcher.begin_anew(&client, "the store was replaced").await;
    watcher.check(&listed(&client, KIND).await, "after the store was replaced");
    assert!(!watcher.held.contains_key("lost") && watcher.held.contains_key("others"));
    memory.store().close().await;
}

fn copy(from: &Path, to: &Path) {
    // A store that was closed may have no log.
    for name in FILES.iter().filter(|name| from.join(name).exists()) {
        fs::copy(from.join(name), to.join(name)).expect("a copy of the store");
    }
}
