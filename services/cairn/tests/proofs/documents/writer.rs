//! A client that changes documents, until each change is confirmed.

use super::{KIND, Options, WRITERS};
use cairn_proto::memory::document_service_client::DocumentServiceClient;
use cairn_proto::memory::{
    DeleteDocumentRequest, Document, DocumentKind, ListDocumentsRequest, PutDocumentRequest,
};
use cairn_rpc::{Link, Principal, with_principal};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tonic::{Code, Request, Status};

/// No answer of a server that is there takes so long; the request is sent again then.
pub(super) const LONGEST_ANSWER: Duration = Duration::from_secs(10);
/// Between two tries.
pub(super) const PAUSE: Duration = Duration::from_millis(20);
/// Between two changes of a client: a change that is tried again is remembered for 1,000 later ones.
const REST: Duration = Duration::from_millis(2);
/// Documents that are put at the same time.
const AT_ONCE: usize = 64;

pub(super) type Documents = DocumentServiceClient<Link>;

/// Documents by id, each with its version and its value.
pub(super) type Held = BTreeMap<String, (u64, String)>;

/// A change that was confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) version: u64,
    pub(super) id: String,
    /// None for a deletion.
    pub(super) value: Option<String>,
}

impl Change {
    /// A document as memory gives it.
    pub(super) fn of(document: Document) -> Self {
        let value = String::from_utf8_lossy(&document.value).into_owned();
        Self {
            version: document.version,
            id: document.id,
            value: (!document.deleted).then_some(value),
        }
    }

    /// What documents there are after it.
    pub(super) fn apply(&self, held: &mut Held) {
        match &self.value {
            Some(value) => held.insert(self.id.clone(), (self.version, value.clone())),
            None => held.remove(&self.id),
        };
    }
}

/// A request of a process in the namespace that all have.
pub(super) fn of_process<T>(message: T) -> Request<T> {
    with_principal(Request::new(message), &Principal::process())
}

/// The server was killed, or is not there yet.
pub(super) fn is_gone(status: &Status) -> bool {
    let codes = [
        Code::Unavailable,
        Code::Unknown,
        Code::Cancelled,
        Code::DeadlineExceeded,
        Code::Internal,
        Code::ResourceExhausted,
    ];
    codes.contains(&status.code())
}

/// Sends a request until it is answered. Another error ends the proof.
macro_rules! ask {
    ($documents:expr, $method:ident, $request:expr) => {{
        let request = $request;
        loop {
            let mut client = $documents.clone();
            let asked = client.$method(of_process(request.clone()));
            match timeout(LONGEST_ANSWER, asked).await {
                Ok(Ok(answer)) => break answer.into_inner(),
                Ok(Err(status)) => assert!(is_gone(&status), "{request:?}: {status:?}"),
                Err(_) => {}
            }
            sleep(PAUSE).await;
        }
    }};
}

/// Puts a document, and returns the change.
pub(super) async fn put(
    documents: &Documents,
    kind: DocumentKind,
    id: &str,
    operation_id: &str,
) -> Change {
    let value = format!("{id} by {operation_id} {}", "x".repeat(120));
    let request = PutDocumentRequest {
        kind: kind.into(),
        id: id.to_owned(),
        value: value.clone().into_bytes().into(),
        expected_version: None,
        operation_id: operation_id.to_owned(),
    };
    let version = ask!(documents, put_document, request).version;
    Change {
        version,
        id: id.to_owned(),
        value: Some(value),
    }
}

/// Deletes a document, and returns the change; none if there was no such document.
pub(super) async fn delete(
    documents: &Documents,
    kind: DocumentKind,
    id: &str,
    operation_id: &str,
) -> Option<Change> {
    let request = DeleteDocumentRequest {
        kind: kind.into(),
        id: id.to_owned(),
        expected_version: None,
        operation_id: operation_id.to_owned(),
    };
    let version = ask!(documents, delete_document, request).version;
    (version > 0).then(|| Change {
        version,
        id: id.to_owned(),
        value: None,
    })
}

/// Puts so many documents, and returns the changes.
pub(super) async fn fill(documents: &Documents, kind: DocumentKind, count: usize) -> Vec<Change> {
    let mut changes = Vec::with_capacity(count);
    let numbers: Vec<usize> = (0..count).collect();
    for some in numbers.chunks(AT_ONCE) {
        let mut tasks = JoinSet::new();
        for number in some {
            let (documents, id) = (documents.clone(), id_of(*number));
            let operation = format!("fill-{id}");
            tasks.spawn(async move { put(&documents, kind, &id, &operation).await });
        }
        changes.extend(tasks.join_all().await);
    }
    changes
}

/// All documents, page by page.
pub(super) async fn listed(documents: &Documents, kind: DocumentKind) -> Held {
    let (mut held, mut after) = (Held::new(), None);
    loop {
        let request = ListDocumentsRequest {
            kind: kind.into(),
            after,
            page_size: 0,
        };
        let page = ask!(documents, list_documents, request);
        let changes = page.documents.into_iter().map(Change::of);
        changes.for_each(|change| change.apply(&mut held));
        after = page.position;
        if page.is_last {
            return held;
        }
    }
}

fn id_of(number: usize) -> String {
    format!("d-{number:05}")
}

/// Numbers that follow from a seed: SplitMix64.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64, number: usize) -> Self {
        let number = u64::try_from(number).unwrap_or_default();
        Self(seed.wrapping_mul(1_000_003).wrapping_add(number))
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let end = u64::try_from(end).unwrap_or(u64::MAX);
        usize::try_from(mixed % end).unwrap_or_default()
    }
}

/// A client that changes documents that no other one changes.
pub(super) struct Writer {
    documents: Documents,
    number: usize,
    /// Ids that there may be.
    ids: usize,
    random: Random,
    operations: usize,
    pub(super) changes: Vec<Change>,
}

impl Writer {
    pub(super) fn new(documents: Documents, options: &Options, number: usize) -> Self {
        Self {
            documents,
            number,
            // Some of them are not there at first.
            ids: options.documents + options.documents / 10,
            random: Random::new(options.seed, number),
            operations: 0,
            changes: Vec::new(),
        }
    }

    /// Puts a document, or deletes one.
    pub(super) async fn act(&mut self) {
        self.operations += 1;
        let operation = format!("writer-{}-{}", self.number, self.operations);
        let own = self.random.below(self.ids / WRITERS) * WRITERS + self.number;
        let id = id_of(own);
        let change = match self.random.below(4) {
            0 => delete(&self.documents, KIND, &id, &operation).await,
            _ => Some(put(&self.documents, KIND, &id, &operation).await),
        };
        self.changes.extend(change);
        sleep(REST).await;
    }
}
