//! Documents: clients put and delete documents of one kind at random, watchers follow them, and memory and the
//! watchers are killed. Each change that was confirmed has a version of its own, and all watchers and a listing end
//! with the last change of every document. Then a watcher is away for each kind of gap: some changes, a listing that
//! is interrupted, tombstones that are gone, and a store that was replaced.
//!
//! `deploy/prove documents` has 5,000 documents over a file and over Redis; the suite runs short forms.

mod gaps;
mod watcher;
mod writer;

use self::watcher::Watcher;
use self::writer::{Change, Documents, Held, Writer, fill, listed};
use crate::support::{CAIRN, link};
use cairn_proto::memory::DocumentKind;
use cairn_testkit::site::Starting;
use cairn_testkit::{PATIENCE, Site, TestStore, free_port};
use clap::Args;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// Clients that change documents, each its own.
const WRITERS: usize = 2;
const WATCHERS: usize = 3;
const KIND: DocumentKind = DocumentKind::Agent;

/// How long it is. The defaults are the long form.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Documents of the kind
    #[arg(long, value_name = "N", default_value_t = 5000)]
    pub(crate) documents: usize,
    /// Kills of memory over each store
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(crate) kills: usize,
    /// What the clients ask for
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

const SHORT: Options = Options {
    documents: 200,
    kills: 3,
    seed: 1,
};

#[test]
fn kills_lose_no_change_of_a_document_and_watchers_miss_none() {
    run(&TestStore::file(), None, &SHORT);
}

mod redis {
    use super::{Options, SHORT, TestStore, run};

    #[test]
    fn kills_lose_no_change_of_a_document_over_redis() {
        prove(&SHORT);
    }

    pub(super) fn prove(options: &Options) {
        run(&TestStore::redis(), Some(&TestStore::redis()), options);
    }
}

/// Runs over both stores, and panics with the findings.
pub(crate) fn prove(options: &Options) {
    println!("{options:?}");
    run(&TestStore::file(), None, options);
    redis::prove(options);
}

/// `other` takes the place of a store of servers. A file is replaced by a copy.
fn run(store: &TestStore, other: Option<&TestStore>, options: &Options) {
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(4).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let name = if store.is_file() { "SQLite" } else { "Redis" };
    kills(store, name, options, &runtime);
    runtime.block_on(gaps::prove(store, other, name, options.documents));
}

/// A memory process of a site, which is killed and started again at its address.
struct Process<'a> {
    site: &'a Site,
    store: &'a TestStore,
    port: u16,
    running: Option<Starting>,
}

impl<'a> Process<'a> {
    fn start(site: &'a Site, store: &'a TestStore) -> Self {
        let mut process = Self {
            site,
            store,
            port: free_port(),
            running: None,
        };
        process.kill();
        process
    }

    fn documents(&self) -> Documents {
        Documents::new(link(&format!("http://127.0.0.1:{}", self.port)))
    }

    /// Kills it, as `kill -9` does, and starts it again.
    fn kill(&mut self) {
        drop(self.running.take());
        let internal = format!("127.0.0.1:{}", self.port);
        let arguments = ["serve", "memory", "--internal", &internal, "--json"];
        let variables = self.store.variables();
        let mut begun = self.site.begin(&arguments, &variables, "memory.log");
        let serves = begun.first_line(PATIENCE).is_some();
        assert!(
            serves,
            "it does not serve:\n{}",
            self.site.tail("memory.log", 15)
        );
        self.running = Some(begun);
    }
}

fn kills(store: &TestStore, name: &str, options: &Options, runtime: &Runtime) {
    let _inside = runtime.enter();
    let site = Site::new(CAIRN);
    let mut process = Process::start(&site, store);
    let documents = process.documents();
    let began = Instant::now();
    let mut changes = runtime.block_on(fill(&documents, KIND, options.documents));
    println!(
        "{name}: {} documents in {:.1?}",
        changes.len(),
        began.elapsed()
    );
    let end = Arc::new(AtomicU64::new(u64::MAX));
    let watchers = (0..WATCHERS).map(|number| {
        let watcher = Watcher::new(process.documents(), options.seed, number);
        runtime.spawn(watcher.watch(end.clone()))
    });
    let watchers: Vec<_> = watchers.collect();

    let began = Instant::now();
    changes.extend(drive(&mut process, options, runtime));
    let disturbed = began.elapsed();
    let mut findings = Vec::new();
    let confirmed = confirmed(&changes, &mut findings);
    let expected = last_of_each(&confirmed);
    let last = confirmed.keys().next_back().copied().unwrap_or_default();
    end.store(last, Ordering::Relaxed);
    let (mut breaks, mut relists, mut deaths) = (0, 0, 0);
    for (number, watcher) in watchers.into_iter().enumerate() {
        let watcher = runtime.block_on(watcher).expect("a watcher");
        (breaks, relists, deaths) = (
            breaks + watcher.breaks,
            relists + watcher.relists,
            deaths + watcher.deaths,
        );
        let of_watcher = watcher.verdict(&confirmed, &expected).into_iter();
        findings.extend(of_watcher.map(|finding| format!("watcher {number}: {finding}")));
    }
    let began = Instant::now();
    let listed = runtime.block_on(listed(&process.documents(), KIND));
    println!(
        "{name}: {} documents listed in {:.1?}",
        listed.len(),
        began.elapsed()
    );
    findings.extend(differences("the listing", &listed, &expected));
    println!(
        "{name}: {} kills in {disturbed:.1?}, {} changes, {breaks} watches broke, {relists} began anew, {deaths} \
         watchers were killed",
        options.kills,
        confirmed.len()
    );
    assert!(
        findings.is_empty(),
        "what was found:\n{}",
        findings.join("\n")
    );
}

/// Lets the clients work and kills memory, until there was enough of it.
fn drive(process: &mut Process<'_>, options: &Options, runtime: &Runtime) -> Vec<Change> {
    let is_over = Arc::new(AtomicBool::new(false));
    let writers = (0..WRITERS).map(|number| {
        let mut writer = Writer::new(process.documents(), options, number);
        let is_over = is_over.clone();
        runtime.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                writer.act().await;
            }
            writer.changes
        })
    });
    let writers: Vec<_> = writers.collect();
    for kill in 0..options.kills {
        // Moments that no rhythm of the clients meets again and again.
        let moment = u64::try_from(kill * 37 % 101).expect("a small number");
        std::thread::sleep(Duration::from_millis(150 + 5 * moment));
        process.kill();
    }
    is_over.store(true, Ordering::Relaxed);
    let writers = writers.into_iter();
    let changes = writers.map(|writer| runtime.block_on(writer).expect("a writer"));
    changes.flatten().collect()
}

/// The confirmed changes by their versions. Two of one version are a finding.
fn confirmed(changes: &[Change], findings: &mut Vec<String>) -> BTreeMap<u64, Change> {
    let mut confirmed = BTreeMap::new();
    for change in changes {
        if let Some(other) = confirmed.insert(change.version, change.clone()) {
            findings.push(format!(
                "one version for two changes: {other:?} and {change:?}"
            ));
        }
    }
    confirmed
}

/// The documents after these changes.
fn last_of_each(confirmed: &BTreeMap<u64, Change>) -> Held {
    let mut held = Held::new();
    for change in confirmed.values() {
        change.apply(&mut held);
    }
    held
}

/// What differs between documents and those that there have to be, for a few documents.
fn differences(what: &str, found: &Held, expected: &Held) -> Vec<String> {
    const SHOWN: usize = 5;
    let ids = found.keys().chain(expected.keys());
    let ids: BTreeSet<&String> = ids.collect();
    let differing = ids
        .into_iter()
        .filter(|id| found.get(*id) != expected.get(*id));
    let said = differing.map(|id| {
        let (found, expected) = (found.get(id), expected.get(id));
        format!("{what} has {found:?} as {id}, not {expected:?}")
    });
    said.take(SHOWN).collect()
}
