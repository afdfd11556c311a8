//! A watcher that is killed, and comes back with its position or without it.

use super::writer::{Change, Documents, Held, LONGEST_ANSWER, PAUSE, Random, is_gone, of_process};
use super::{KIND, differences};
use cairn_memory::error::RELIST;
use cairn_proto::memory::{DocumentPosition, WatchDocumentsRequest, WatchDocumentsResponse};
use cairn_rpc::RpcError;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tonic::{Status, Streaming};

/// A watcher that knows everything is sent nothing, and asks again.
const QUIET: Duration = Duration::from_secs(2);
/// Most messages that a watcher takes before it is killed.
const LIFE: usize = 400;

/// A watcher, what it holds, and all that it was sent.
pub(super) struct Watcher {
    documents: Documents,
    random: Random,
    position: Option<DocumentPosition>,
    held: Held,
    /// By version.
    sent: BTreeMap<u64, Change>,
    findings: Vec<String>,
    /// Streams that broke.
    pub(super) breaks: usize,
    /// How often memory asked it to begin anew.
    pub(super) relists: usize,
    /// How often it was killed.
    pub(super) deaths: usize,
}

impl Watcher {
    pub(super) fn new(documents: Documents, seed: u64, number: usize) -> Self {
        Self {
            documents,
            random: Random::new(seed, 100 + number),
            position: None,
            held: Held::new(),
            sent: BTreeMap::new(),
            findings: Vec::new(),
            breaks: 0,
            relists: 0,
            deaths: 0,
        }
    }

    /// Watches until it knows all changes up to `end`, which is known late.
    pub(super) async fn watch(mut self, end: Arc<AtomicU64>) -> Self {
        while !self.is_over(&end) {
            if self.position.is_none() {
                self.held.clear();
            }
            let request = WatchDocumentsRequest {
                kind: KIND.into(),
                after: self.position.clone(),
            };
            let mut documents = self.documents.clone();
            let opened = documents.watch_documents(of_process(request));
            match timeout(LONGEST_ANSWER, opened).await {
                Ok(Ok(stream)) => self.follow(stream.into_inner(), &end).await,
                Ok(Err(status)) => self.broke(&status),
                Err(_) => self.breaks += 1,
            }
            sleep(PAUSE).await;
        }
        self
    }

    fn is_over(&self, end: &AtomicU64) -> bool {
        let known = self
            .position
            .as_ref()
            .map_or(0, |position| position.counter);
        known >= end.load(Ordering::Relaxed)
    }

    /// Takes messages until the stream ends, or the watcher is killed.
    async fn follow(&mut self, mut stream: Streaming<WatchDocumentsResponse>, end: &AtomicU64) {
        for _ in 0..=self.random.below(LIFE) {
            match timeout(QUIET, stream.message()).await {
                Ok(Ok(Some(message))) => self.take(message),
                Ok(Ok(None)) => return self.breaks += 1,
                Ok(Err(status)) => return self.broke(&status),
                Err(_) => return,
            }
            if self.is_over(end) {
                return;
            }
        }
        self.deaths += 1;
        // One that kept its position comes back with all that it held.
        if self.random.below(3) == 0 {
            self.position = None;
        }
    }

    fn broke(&mut self, status: &Status) {
        if RpcError::from_status(status).reason_name() == RELIST {
            self.relists += 1;
            self.position = None;
            return;
        }
        self.breaks += 1;
        if !is_gone(status) {
            self.findings.push(format!("refused: {status:?}"));
        }
    }

    fn take(&mut self, message: WatchDocumentsResponse) {
        let mut last = self
            .position
            .as_ref()
            .map_or(0, |position| position.counter);
        for document in message.documents {
            let change = Change::of(document);
            if change.version <= last {
                self.findings.push(format!("{change:?} comes after {last}"));
            }
            last = change.version;
            change.apply(&mut self.held);
            if let Some(other) = self.sent.insert(change.version, change.clone())
                && other != change
            {
                self.findings
                    .push(format!("{change:?} was {other:?} before"));
            }
        }
        let position = message.position.unwrap_or_default();
        if position.counter < last {
            self.findings.push(format!("{position:?} is before {last}"));
        }
        self.position = Some(position);
    }

    /// What is wrong with what it was sent, and with what it holds at the end.
    pub(super) fn verdict(self, confirmed: &BTreeMap<u64, Change>, expected: &Held) -> Vec<String> {
        let mut findings = self.findings;
        for (version, change) in &self.sent {
            if confirmed.get(version) != Some(change) {
                findings.push(format!("was sent {change:?}, which was not confirmed"));
            }
        }
        findings.extend(differences("it", &self.held, expected));
        findings
    }
}
