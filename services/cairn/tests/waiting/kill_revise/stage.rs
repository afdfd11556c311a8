//! Runs that are to have another plan, at some stage, in stores that nobody serves.

use super::place::Place;
use super::served::{self, SESSION};
use crate::support::connect;
use cairn_proto::orchestrator as pb;
use cairn_testkit::model_server::Answer;
use cairn_testkit::{ModelServer, TestStore};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// What the run is doing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Stage {
    /// The model is asked in its second step.
    Running,
    /// It was paused in that step.
    Paused,
    /// It is over.
    Completed,
}

/// The plan before.
pub(crate) fn old() -> Value {
    plan("Ponder", "two")
}

/// The plan after.
pub(crate) fn new() -> Value {
    plan("Weigh", "three")
}

fn plan(second: &str, last: &str) -> Value {
    let record = |title: &str, what: &str| json!({"title": title, "tool": "record", "arguments": {"what": what}});
    let second = json!({"title": second, "description": format!("{second} it.")});
    json!({"order": "chain", "steps": [record("First", "one"), second, record("Last", last)]})
}

/// By what people recognise the steps of a plan, wherever it comes from.
pub(crate) fn words(plan: &Value) -> Vec<(String, String)> {
    let steps = plan["steps"].as_array().expect("steps").iter();
    let words = steps.map(|step| {
        let title = step["title"].as_str().unwrap_or_default().to_owned();
        let text = step.to_string().replace("\\\"", "\"");
        let whats = ["one", "two", "three"].into_iter();
        let mut whats = whats.filter(|what| text.contains(&format!(r#""what":"{what}""#)));
        (title, whats.next().unwrap_or_default().to_owned())
    });
    words.collect()
}

/// A run at a stage, as often as one likes.
pub(crate) struct Ready {
    pub(crate) stage: Stage,
    store: Arc<TestStore>,
    /// The model of all of them.
    model: ModelServer,
    /// What can be copied, if that is a file.
    first: Option<Place>,
}

impl Ready {
    pub(crate) async fn at(stage: Stage, store: &Arc<TestStore>) -> Self {
        let holds = stage != Stage::Completed;
        let model = ModelServer::start(move |body| match served::title(body).as_deref() {
            None => served::planned(&new()),
            Some("Ponder") if holds => Answer::Hold,
            Some(title) => served::done(title),
        });
        let mut ready = Self {
            stage,
            store: Arc::clone(store),
            model,
            first: None,
        };
        if store.is_file() {
            ready.first = Some(ready.made("first").await);
        }
        ready
    }

    /// One in a place of its own, which nobody serves.
    pub(crate) async fn place(&self, name: &str) -> Place {
        match &self.first {
            Some(first) => self.copy(first),
            None => self.made(name).await,
        }
    }

    async fn made(&self, name: &str) -> Place {
        let stage = self.stage;
        let name = format!("{stage:?}-{name}");
        let mut place = Place::beside_others(&self.store, &name);
        served::add_model(&place.site, &self.model);
        place.keep_serving();
        let mut client = connect(place.address());
        served::start(&mut client, &old()).await;
        match stage {
            Stage::Completed => {
                served::wait_for(&mut client, SESSION, 1, served::is_completed).await;
            }
            Stage::Running | Stage::Paused => {
                served::wait_for(&mut client, SESSION, 1, |kind| served::starts(kind, 2)).await;
            }
        }
        if stage == Stage::Paused {
            let request = pb::PauseRunRequest {
                session: SESSION.to_owned(),
                request_id: "pause".to_owned(),
                ..pb::PauseRunRequest::default()
            };
            client.pause_run(request).await.expect("it is running");
        }
        place.kill_server();
        place
    }

    fn copy(&self, first: &Place) -> Place {
        let copy = Place::beside_others(&self.store, "copy");
        copy_files(first.site.path(), copy.site.path());
        let [from, to] = [&first.site, &copy.site].map(|site| site.beside_store(""));
        copy_files(&from, &to);
        // The note of the run's folder would name the first one's.
        fs::remove_file(copy.site.beside_store("cairn.db.workspace")).expect("a note");
        copy
    }
}

/// What is no file, as the socket of a server that is dead, stays behind.
fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("its type").is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
        }
    }
}
