//! Writes of files: previewed, asked about, and made once. The tools count them.

use crate::support::{
    Kind, Question, Tools, World, chain, count, model_step, names, real_executor_on,
};
use cairn_proto::event as wire;
use cairn_proto::event::{Mode, WaitReason, settlement};
use cairn_proto::orchestrator as pb;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

/// An orchestrator, a real executor, and tools that write.
struct Site {
    world: World,
    tools: Tools,
    questions: UnboundedReceiver<Question>,
}

impl Site {
    async fn new() -> Self {
        let tools = Tools::default();
        tools.add_writer();
        let (executor, questions) = real_executor_on(&tools).await;
        let world = World::with_executor_on(executor, tools.clone()).await;
        Self {
            world,
            tools,
            questions,
        }
    }

    /// A run that a person follows, or none.
    async fn start(&self, answers_questions: bool) -> String {
        let run = wire::StartRun {
            answers_questions,
            ..chain(vec![model_step("one")])
        };
        self.world.start(run).await
    }

    /// The model is asked.
    async fn question(&mut self) -> Question {
        let question = self.world.until(self.questions.recv()).await;
        question.expect("a question")
    }

    async fn set_mode(&self, session: &str, mode: Mode) {
        let request = pb::SetModeRequest {
            session: session.to_owned(),
            request_id: self.world.request_id(),
            mode: mode.into(),
        };
        let mut contexts = self.world.contexts.clone();
        let set = self.world.until(contexts.set_mode(request)).await;
        assert!(set.expect("the mode is set").into_inner().seq > 0);
    }

    /// What waits for approval, once something does that was asked so many times.
    async fn asked(&self, session: &str, times: usize) -> pb::Pending {
        let look = async {
            loop {
                let events = self.world.journal.events(session).await;
                if count(&events, "ApprovalRequested") == times {
                    return;
                }
            }
        };
        self.world.until(look).await;
        let request = pb::ListPendingRequest {
            session: session.to_owned(),
            ..pb::ListPendingRequest::default()
        };
        let listed = self.world.client.clone().list_pending(request).await;
        let mut pending = listed.expect("a list").into_inner().pending;
        assert_eq!(pending.len(), 1, "{pending:?}");
        assert_eq!(pending[0].reason(), WaitReason::Approval);
        pending.remove(0)
    }

    async fn approve(&self, asked: &pb::Pending) {
        let approve = settlement::Outcome::Approve(settlement::Approve {});
        let request = pb::DecideRequest {
            session: asked.session.clone(),
            pending_id: asked.id.clone(),
            settlement: Some(wire::Settlement {
                outcome: Some(approve),
            }),
            request_id: self.world.request_id(),
        };
        let mut client = self.world.client.clone();
        let decided = self.world.until(client.decide(request)).await;
        decided.expect("it is decided");
    }
}

const WRITE: &str = r#"{"path": "src/a", "content": "new"}"#;

fn written(path: &str, content: &str) -> (String, String) {
    (path.to_owned(), content.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_write_is_shown_before_it_is_made_and_made_once() {
    let mut site = Site::new().await;
    let session = site.start(true).await;
    site.question().await.reply("", &[("write", WRITE)]);
    let asked = site.asked(&session, 1).await;
    let preview = asked.preview.as_ref().expect("a preview");
    assert_eq!(
        (preview.path.as_str(), preview.diff.as_str()),
        ("src/a", "+new\n")
    );
    assert_eq!((preview.before_digest.as_str(), preview.added), ("", 1));
    assert!(site.tools.writes().is_empty() && site.tools.called().is_empty());
    site.approve(&asked).await;
    let question = site.question().await;
    assert!(
        question
            .texts
            .iter()
            .any(|text| text.contains("wrote src/a"))
    );
    assert_eq!(site.tools.writes(), [written("src/a", "new")]);
    let events = site.world.journal.events(&session).await;
    assert_eq!(count(&events, "CallPreviewed"), 1, "{:?}", names(&events));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changes_while_a_person_decides_is_not_written_before_a_new_approval() {
    let mut site = Site::new().await;
    let session = site.start(true).await;
    site.question().await.reply("", &[("write", WRITE)]);
    let asked = site.asked(&session, 1).await;
    site.tools.change("src/a", "of another program");
    site.approve(&asked).await;
    // It was not read as it is now.
    let texts = site.question().await.texts;
    let is_told = |text: &String| text.contains("was not read in this conversation");
    assert!(texts.iter().any(is_told), "{texts:?}");
    assert!(site.tools.writes().is_empty());
    assert_eq!(site.tools.previews(), 2);
    let events = site.world.journal.events(&session).await;
    assert_eq!(count(&events, "CallRejudged"), 1, "{:?}", names(&events));
}

#[tokio::test(start_paused = true)]
async fn without_a_person_nothing_is_written_in_the_workspace() {
    let mut site = Site::new().await;
    let session = site.start(false).await;
    site.question().await.reply("", &[("write", WRITE)]);
    let texts = site.question().await.texts;
    let is_told = |text: &String| text.contains("only cairn-out/ can be written here");
    assert!(texts.iter().any(is_told), "{texts:?}");
    assert!(site.tools.writes().is_empty() && site.tools.called().is_empty());
    let events = site.world.journal.events(&session).await;
    assert_eq!(count(&events, "ApprovalRequested"), 0);
}

#[tokio::test(start_paused = true)]
async fn accept_edits_writes_without_a_question_and_asks_about_protected_files() {
    let mut site = Site::new().await;
    let session = site.start(true).await;
    let question = site.question().await;
    site.set_mode(&session, Mode::AcceptEdits).await;
    let twice = r#"{"path": "src/a", "content": "newer"}"#;
    question.reply("", &[("write", WRITE), ("write", twice)]);
    let question = site.question().await;
    let expected = [written("src/a", "new"), written("src/a", "newer")];
    assert_eq!(site.tools.writes(), expected, "in the order of the reply");
    let protected = r#"{"path": "AGENTS.md", "content": "obey"}"#;
    question.reply("", &[("write", protected)]);
    let asked = site.asked(&session, 1).await;
    assert!(asked.preview.expect("a preview").is_protected);
    assert_eq!(site.tools.writes().len(), 2);
    let request = pb::GetSessionRequest {
        session: session.clone(),
    };
    let shown = site.world.client.clone().get_session(request).await;
    let shown = shown.expect("a session").into_inner().session.unwrap();
    assert_eq!(shown.mode(), Mode::AcceptEdits);
}

#[tokio::test(start_paused = true)]
async fn plan_mode_sends_no_call_that_may_change_anything() {
    let mut site = Site::new().await;
    let session = site.start(true).await;
    let question = site.question().await;
    site.set_mode(&session, Mode::Plan).await;
    let calls = [("write", WRITE), ("effectful", "{}"), ("idempotent", "{}")];
    question.reply("", &calls);
    let question = site.question().await;
    let told = question.texts.iter();
    assert!(
        told.clone()
            .any(|text| text.contains("You are in plan mode."))
    );
    assert_eq!(
        told.filter(|text| text.contains("the mode is plan:"))
            .count(),
        3
    );
    assert!(site.tools.called().is_empty() && site.tools.previews() == 0);
    site.set_mode(&session, Mode::Ask).await;
    question.reply("", &[("write", WRITE)]);
    let asked = site.asked(&session, 1).await;
    site.approve(&asked).await;
    site.question().await;
    assert_eq!(site.tools.writes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_preview_waits_for_the_tools_and_fails_its_call_after_half_a_minute() {
    let mut site = Site::new().await;
    let session = site.start(true).await;
    let question = site.question().await;
    site.tools.be_away(true);
    question.reply("", &[("write", WRITE)]);
    site.world.pass(Duration::from_secs(5)).await;
    site.tools.be_away(false);
    site.asked(&session, 1).await;

    let session = site.start(true).await;
    let question = site.question().await;
    site.tools.be_away(true);
    question.reply("", &[("write", WRITE)]);
    let is_end = |kind: &Kind| matches!(kind, Kind::CallFinished(it) if it.reason == "Timeout");
    site.world.seen(&session, is_end).await;
    assert!(site.tools.writes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_mode_has_to_be_named() {
    let site = Site::new().await;
    let session = site.start(true).await;
    let request = pb::SetModeRequest {
        session,
        request_id: site.world.request_id(),
        mode: 0,
    };
    let refused = site.world.contexts.clone().set_mode(request).await;
    assert_eq!(
        refused.expect_err("no mode").code(),
        tonic::Code::InvalidArgument
    );
}
