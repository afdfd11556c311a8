//! A hook of the process that asks the test.

use cairn_engine::hooks::{Point, Verdict};
use cairn_hooks::{Asked, Definition, Hook, HookError, HookExecutor, Means, Policy, ProgramConfig};
use cairn_orchestrator::Config;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The name of the hook that the test plays.
pub(crate) const HOOK: &str = "played";

type Answer = Result<Verdict, HookError>;

/// A question to the hook. Dropping it makes the hook unreachable.
#[derive(Debug)]
pub(crate) struct HookQuestion {
    pub(crate) asked: Asked,
    answer: oneshot::Sender<Answer>,
}

impl HookQuestion {
    pub(crate) fn answer(self, answer: Verdict) {
        // The owner may have gone.
        let _ = self.answer.send(Ok(answer));
    }

    pub(crate) fn proceed(self) {
        self.answer(Verdict::Proceed);
    }

    pub(crate) fn block(self, why: &str) {
        self.answer(Verdict::Block(why.to_owned()));
    }

    /// The owner does not wait for it any more.
    pub(crate) fn is_dropped(&self) -> bool {
        self.answer.is_closed()
    }
}

pub(crate) type HookQuestions = mpsc::UnboundedReceiver<HookQuestion>;

#[derive(Debug)]
struct AsksTest(mpsc::UnboundedSender<HookQuestion>);

#[tonic::async_trait]
impl Hook for AsksTest {
    async fn ask(&self, asked: &Asked) -> Answer {
        let (answer, wait) = oneshot::channel();
        let question = HookQuestion {
            asked: asked.clone(),
            answer,
        };
        // The test may be over.
        let _ = self.0.send(question);
        let gone = HookError::Unreachable("the test dropped the question".to_owned());
        wait.await.unwrap_or(Err(gone))
    }
}

/// Has the one hook of the test, for every means.
#[derive(Debug)]
struct Played(Arc<dyn Hook>);

impl HookExecutor for Played {
    fn in_process(&self, name: &str) -> Option<Arc<dyn Hook>> {
        (name == HOOK).then(|| self.0.clone())
    }

    fn program(&self, _: &ProgramConfig, _: Duration) -> Arc<dyn Hook> {
        self.0.clone()
    }

    fn host(&self, _: &str, _: Duration) -> Arc<dyn Hook> {
        self.0.clone()
    }
}

/// The hook as the settings have it.
pub(crate) fn definition(points: &[Point]) -> Definition {
    Definition {
        name: HOOK.to_owned(),
        points: points.iter().copied().collect(),
        agents: None,
        tools: Vec::new(),
        means: Means::InProcess,
        policy: Policy {
            timeout: Duration::from_secs(60),
            on_error: None,
        },
    }
}

/// Settings with the hook at these points; none without points. Clients may store hooks at `hooks.example.org`.
pub(crate) fn with_hook(points: &[Point]) -> (Config, HookQuestions) {
    let (to_test, questions) = mpsc::unbounded_channel();
    let hooks = match points {
        [] => Vec::new(),
        points => vec![definition(points)],
    };
    let config = Config {
        hooks,
        hook_addresses: vec!["https://hooks.example.org:*".to_owned()],
        hook_executor: Some(Arc::new(Played(Arc::new(AsksTest(to_test))))),
        ..Config::default()
    };
    (config, questions)
}
