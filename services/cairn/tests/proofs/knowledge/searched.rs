//! Pages that are stored and searched through two orchestrators over one store.

use super::pages::{Page, Question, generated, of_set, questions, word};
use super::{Options, runtime};
use crate::support::{CAIRN, link};
use cairn_proto::api as pb;
use cairn_proto::api::knowledge_service_client::KnowledgeServiceClient;
use cairn_rpc::Link;
use cairn_testkit::{Cluster, Site, TestStore};
use std::fmt;
use std::time::{Duration, Instant};

const ORCHESTRATORS: usize = 2;
/// Hits of a search.
const HITS: u32 = 20;
/// A query is answered if its page is among so many.
const BEST: usize = 5;
/// The least part of the queries of a language that are answered. The ranking's own tests have harder pages around.
const LEAST_RECALL: f64 = 0.9;
/// Sums of the same numbers in another order may differ so much.
const SAME: f64 = 1e-9;

/// A page that a search found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hit {
    id: String,
    version: u64,
    score: f64,
}

/// The hits of each query.
pub(super) type Answers = Vec<Vec<Hit>>;

/// Stores all pages over a store, searches them, and panics with what is wrong.
pub(super) fn prove(name: &str, store: &TestStore, options: &Options) -> Answers {
    let site = Site::new(CAIRN);
    let memories = if store.is_file() { 1 } else { 2 };
    let counts = [memories, 1, 1, 1, ORCHESTRATORS];
    let cluster = Cluster::several(&site, &store.variables(), counts);
    let addresses = cluster.addresses("orchestrator");
    runtime().block_on(async {
        let servers = addresses.iter().map(|address| Server::at(address));
        let mut servers: Vec<Server> = servers.collect();
        Box::pin(fill(&mut servers, name, options)).await;
        let answers = Box::pin(search_all(&mut servers, name)).await;
        let rounds = usize::from(options.rounds);
        Box::pin(find_changes(&mut servers, name, rounds)).await;
        answers
    })
}

/// Panics unless the searches over two stores have the same hits.
pub(super) fn check_same(one: &[Vec<Hit>], other: &[Vec<Hit>]) {
    let questions = questions();
    for (question, (one, other)) in questions.iter().zip(one.iter().zip(other)) {
        check_alike(&question.text, ["a file", "Redis"], one, other);
    }
    println!("{} queries: the same over both stores", one.len());
}

fn check_alike(query: &str, names: [&str; 2], one: &[Hit], other: &[Hit]) {
    let is_same =
        |(one, other): (&Hit, &Hit)| one.id == other.id && (one.score - other.score).abs() <= SAME;
    let are_same = one.len() == other.len() && one.iter().zip(other).all(is_same);
    let [first, second] = names;
    assert!(
        are_same,
        "{query:?} has other hits over {first} than over {second}:\n{one:?}\n{other:?}"
    );
}

/// Stores all pages, in turn at each server. One after the other, so that their versions have one order.
async fn fill(servers: &mut [Server], name: &str, options: &Options) {
    let mut pages = of_set();
    pages.extend(generated(&pages, options.pages.into()));
    let mut times = Times::default();
    for (number, page) in pages.iter().enumerate() {
        let began = Instant::now();
        servers[number % ORCHESTRATORS].put(page).await;
        times.0.push(began.elapsed());
    }
    println!("{name}: {} pages are stored, each in {times}", pages.len());
}

/// Searches for each query at each server, and checks what is found.
async fn search_all(servers: &mut [Server], name: &str) -> Answers {
    let questions = questions();
    let mut answers: Vec<Answers> = Vec::new();
    for (number, server) in servers.iter_mut().enumerate() {
        let began = Instant::now();
        server.search(&questions[0].text, HITS).await;
        println!(
            "{name}: the first search at orchestrator {number}, which builds the index, takes {:.1?}",
            began.elapsed()
        );
        let mut times = Times::default();
        let mut found = Answers::new();
        for question in &questions {
            let began = Instant::now();
            found.push(server.search(&question.text, HITS).await);
            times.0.push(began.elapsed());
        }
        println!("{name}: a search at orchestrator {number} takes {times}");
        answers.push(found);
    }
    let [one, other] = &answers[..] else {
        panic!("{ORCHESTRATORS} orchestrators");
    };
    for (question, (one, other)) in questions.iter().zip(one.iter().zip(other)) {
        check_hits(&question.text, one);
        check_alike(&question.text, ["one server", "the other"], one, other);
    }
    for (language, is_chinese) in [("English", false), ("Chinese", true)] {
        let recall = recall(&questions, one, is_chinese);
        println!("{name}: recall at {BEST}, {language}: {recall:.3}");
        assert!(
            recall >= LEAST_RECALL,
            "{language}: {recall:.3} of the queries are answered, not at least {LEAST_RECALL}"
        );
    }
    answers.remove(0)
}

/// Panics unless each score is above 0 and at most 1, and the best hit comes first.
fn check_hits(query: &str, hits: &[Hit]) {
    assert!(!hits.is_empty(), "{query:?} has no hit");
    let is_score = |hit: &Hit| hit.score > 0.0 && hit.score <= 1.0;
    assert!(
        hits.iter().all(is_score),
        "{query:?} has a score that is not above 0 and at most 1: {hits:?}"
    );
    let is_before = |one: &Hit, other: &Hit| {
        one.score > other.score || (one.score >= other.score && one.version > other.version)
    };
    assert!(
        hits.is_sorted_by(is_before),
        "{query:?}: the best hit does not come first, or of equal ones the newer: {hits:?}"
    );
}

/// The part of the queries of a language whose page is among the best hits.
fn recall(questions: &[Question], answers: &[Vec<Hit>], is_chinese: bool) -> f64 {
    let of_language = questions.iter().zip(answers);
    let of_language = of_language.filter(|(question, _)| question.is_chinese == is_chinese);
    let (mut asked, mut answered) = (0_u32, 0_u32);
    for (question, hits) in of_language {
        let mut best = hits.iter().take(BEST);
        asked += 1;
        answered += u32::from(best.any(|hit| hit.id == question.page));
    }
    f64::from(answered) / f64::from(asked)
}

/// A page is stored, replaced and deleted at one server. The next call is a search at the other one.
async fn find_changes(servers: &mut [Server], name: &str, rounds: usize) {
    let mut times = Times::default();
    for round in 0..rounds {
        let (here, there) = (round % ORCHESTRATORS, (round + 1) % ORCHESTRATORS);
        let id = format!("fresh-{round:03}");
        let [first, second] = ["zza", "zzo"].map(|prefix| word(prefix, round));
        let page = |word: &str| Page {
            id: id.clone(),
            title: "A page that changes".to_owned(),
            text: format!("It is about {word}."),
            tags: Vec::new(),
        };
        servers[here].put(&page(&first)).await;
        let began = Instant::now();
        servers[there].finds(&first, &[&id], "it was stored").await;
        times.0.push(began.elapsed());
        servers[here].put(&page(&second)).await;
        let why = "it was replaced";
        servers[there].finds(&second, &[&id], why).await;
        servers[there].finds(&first, &[], why).await;
        servers[here].delete(&id).await;
        servers[there].finds(&second, &[], "it was deleted").await;
    }
    println!(
        "{name}: {rounds} pages were stored, replaced and deleted, and the next search at the other orchestrator saw \
         each change; a search for a new page takes {times}"
    );
}

/// An orchestrator, as clients reach it.
struct Server {
    knowledge: KnowledgeServiceClient<Link>,
    address: String,
    requests: usize,
}

impl Server {
    fn at(address: &str) -> Self {
        Self {
            knowledge: KnowledgeServiceClient::new(link(address)),
            address: address.to_owned(),
            requests: 0,
        }
    }

    fn request_id(&mut self, what: &str) -> String {
        self.requests += 1;
        // Both servers have requests of the same number.
        let port = self.address.rsplit(':').next().unwrap_or_default();
        format!("{what}-{port}-{}", self.requests)
    }

    async fn put(&mut self, page: &Page) {
        let request = pb::PutPageRequest {
            request_id: self.request_id("put"),
            id: Some(page.id.clone()),
            title: page.title.clone(),
            text: page.text.clone(),
            tags: page.tags.clone(),
            expected_version: None,
        };
        let stored = self.knowledge.put_page(request).await;
        stored.unwrap_or_else(|status| panic!("{} is not stored: {status:?}", page.id));
    }

    async fn delete(&mut self, id: &str) {
        let request = pb::DeletePageRequest {
            request_id: self.request_id("delete"),
            id: id.to_owned(),
            expected_version: None,
        };
        let deleted = self.knowledge.delete_page(request).await;
        deleted.unwrap_or_else(|status| panic!("{id} is not deleted: {status:?}"));
    }

    async fn search(&mut self, query: &str, max: u32) -> Vec<Hit> {
        let request = pb::SearchPagesRequest {
            query: query.to_owned(),
            tags: Vec::new(),
            max,
            min_score: Some(0.0),
        };
        let found = self.knowledge.search_pages(request).await;
        let found = found.unwrap_or_else(|status| panic!("{query:?}: {status:?}"));
        let hits = found.into_inner().hits.into_iter();
        let hits = hits.map(|hit| {
            let page = hit.page.expect("the page of a hit");
            Hit {
                id: page.id,
                version: page.version,
                score: hit.score,
            }
        });
        hits.collect()
    }

    /// Panics unless a search for a word finds these pages and no others.
    async fn finds(&mut self, word: &str, ids: &[&str], why: &str) {
        let hits = self.search(word, HITS).await;
        let found: Vec<&str> = hits.iter().map(|hit| hit.id.as_str()).collect();
        let address = &self.address;
        assert_eq!(
            found, ids,
            "a search for {word:?} at {address}, in the call after {why} at the other server"
        );
    }
}

/// How long calls took.
#[derive(Debug, Default)]
struct Times(Vec<Duration>);

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut times = self.0.clone();
        times.sort_unstable();
        let last = times.len().saturating_sub(1);
        let at = |percent: usize| times.get(last * percent / 100).copied().unwrap_or_default();
        write!(f, "p50 {:.1?}, p99 {:.1?}", at(50), at(99))
    }
}
