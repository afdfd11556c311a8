//! Kill -9 of `cairn serve` before and after the commits of a run whose model saves a page. Whether the page was stored
//! before the kill or not, there is one page after it, which was written once, and the model gets its id.

use super::super::killed::KilledRun;
use crate::support::commits::{Sweep, kill_around_each};
use crate::support::place::Place;
use crate::support::served::{SESSION, add_model, done, turn};
use crate::support::{chain, link, model_step};
use cairn_proto::api as pb;
use cairn_proto::api::knowledge_service_client::KnowledgeServiceClient;
use cairn_testkit::model_server::{Answer, reply};
use cairn_testkit::{Journal, ModelServer, TestStore};
use serde_json::{Value, json};
use std::sync::Arc;

/// Kills at the same time.
const AT_ONCE: usize = 4;
/// A busy machine may make one commit of two.
const MAY_MISS: usize = 4;
const TITLE: &str = "Hours of the harbour";
const TEXT: &str = "The harbour closes at nine.";
const TAGS: [&str; 2] = ["harbour", "town"];

/// What kills came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kills {
    pub(super) kills: usize,
    /// Kills between the page and the answer, so that the call was made again. None where only a server can tell.
    pub(super) again: Option<usize>,
}

/// Where the runs are made, each in a part of it.
struct World {
    store: Arc<TestStore>,
    model: ModelServer,
}

/// Kills at each point of the sweep, and panics with what is wrong.
pub(super) async fn prove(store: TestStore, sweep: Sweep) -> Kills {
    let is_file = store.is_file();
    let world = World {
        store: Arc::new(store),
        model: ModelServer::start(plays),
    };
    let commits = Box::pin(world.undisturbed()).await;
    let world = Arc::new(world);
    let kill = |side: &'static str, commit: usize| {
        let world = Arc::clone(&world);
        let kill = tokio::spawn(async move { Box::pin(world.kill_once(side, commit)).await });
        async move { kill.await.expect("a kill") }
    };
    let swept = kill_around_each(commits, AT_ONCE, sweep, kill).await;
    swept.check_reached(MAY_MISS);
    let again = swept.killed.iter().filter(|was_made| **was_made).count();
    assert!(
        again > 0 || !is_file || !swept.is_complete(),
        "no kill came between the page and the answer, of {}",
        swept.killed.len()
    );
    Kills {
        kills: swept.killed.len(),
        again: is_file.then_some(again),
    }
}

/// Saves a page, and ends the step.
fn plays(body: &Value) -> Answer {
    match turn(body) {
        0 => {
            let page = json!({"title": TITLE, "text": TEXT, "tags": TAGS});
            reply("save", "I save it.", &[("save_knowledge", page)])
        }
        _ => done("It is saved."),
    }
}

impl World {
    fn run(&self, name: &str) -> KilledRun {
        let place = Place::beside_others(&self.store, name);
        add_model(&place.site, &self.model);
        KilledRun::new(place, chain(vec![model_step("Save")]), None)
    }

    /// Runs without a kill, and counts the commits.
    async fn undisturbed(&self) -> usize {
        let mut run = self.run("undisturbed");
        let commits = run.undisturbed().await;
        check(&run.place, "undisturbed").await;
        commits
    }

    /// Kills once and continues. Returns whether the page was stored and its answer was not; none if the run has no
    /// such commit.
    async fn kill_once(&self, side: &str, commit: usize) -> Option<bool> {
        let fail = format!("{side}:{commit}");
        let mut run = self.run(&format!("{side}-{commit}"));
        if !run.serve_until_killed(&fail).await {
            return None;
        }
        let is_made_again = has_page_without_answer(&run.place);
        run.serve("");
        while !run.has_ended {
            let went = run.watch().await;
            went.unwrap_or_else(|status| panic!("{fail}: {status:?}"));
        }
        check(&run.place, &fail).await;
        Some(is_made_again)
    }
}

/// A server that was killed left the page in the file, and no answer of the call.
fn has_page_without_answer(place: &Place) -> bool {
    if !place.is_file() || place.sessions().is_empty() {
        return false;
    }
    let listed = place.with_code(0, &["knowledge", "list", "--json"]);
    let has_page = !listed.out.trim().is_empty();
    has_page && answers(&place.journal(SESSION)).is_empty()
}

/// Panics unless there is one page, which was written once, and the one answer names it.
async fn check(place: &Place, fail: &str) {
    let mut knowledge = KnowledgeServiceClient::new(link(place.address()));
    let listed = knowledge.list_pages(pb::ListPagesRequest::default()).await;
    let listed = listed.expect("a list").into_inner().pages;
    let [page] = &listed[..] else {
        panic!("{fail}: not one page, but {}: {listed:?}", listed.len());
    };
    let request = pb::GetPageRequest {
        id: page.id.clone(),
    };
    let got = knowledge.get_page(request).await.expect("a page");
    let page = got.into_inner().page.expect("a page");
    assert!(page.id.starts_with("call-"), "{fail}: {page:?}");
    assert_eq!(page.version, 1, "{fail}: it was written again");
    let is_whole = page.title == TITLE && page.text == TEXT && page.tags == TAGS;
    assert!(is_whole, "{fail}: {page:?}");
    let journal = place.journal(SESSION);
    journal.check();
    let expected = format!("Saved as page {}.", page.id);
    assert_eq!(
        answers(&journal),
        [expected],
        "{fail}: what the model is told"
    );
    assert_eq!(journal.of_kind("run_completed").len(), 1, "{fail}");
}

/// The results of the calls that saved pages.
fn answers(journal: &Journal) -> Vec<String> {
    let finished = journal.of_kind("call_finished").into_iter();
    let outputs = finished.filter_map(|event| event["output"].as_str());
    let saved = outputs.filter(|output| output.starts_with("Saved as page "));
    saved.map(str::to_owned).collect()
}
