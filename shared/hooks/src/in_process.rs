//! A hook that is a part of this process.

use crate::{Asked, Hook, HookError};
use async_trait::async_trait;
use cairn_engine::hooks::Verdict;
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

/// Asks the hook in a task of its own. So a panic of it is no more than a wrong answer, and code that blocks its thread
/// does not hold up the session.
#[derive(Debug)]
pub(crate) struct InProcess(pub(crate) Arc<dyn Hook>);

#[async_trait]
impl Hook for InProcess {
    async fn ask(&self, asked: &Asked) -> Result<Verdict, HookError> {
        let (hook, asked) = (self.0.clone(), asked.clone());
        let answer = async move { hook.ask(&asked).await };
        let task = AbortOnDropHandle::new(tokio::spawn(answer.in_current_span()));
        task.await.unwrap_or_else(|error| {
            let why = match error.is_panic() {
                true => "it panicked",
                false => "it was stopped before it answered",
            };
            Err(HookError::Wrong(why.to_owned()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::asked;
    use crate::{Policy, ask};
    use cairn_engine::hooks::HookFailure;
    use std::sync::Mutex;
    use tokio::sync::oneshot;

    #[derive(Debug)]
    struct Panics;

    #[async_trait]
    impl Hook for Panics {
        async fn ask(&self, _: &Asked) -> Result<Verdict, HookError> {
            panic!("a hook of a user");
        }
    }

    /// Never answers. The receiver learns when the question was dropped.
    #[derive(Debug)]
    struct Hangs(Mutex<Option<oneshot::Sender<()>>>);

    #[async_trait]
    impl Hook for Hangs {
        async fn ask(&self, _: &Asked) -> Result<Verdict, HookError> {
            let _dropped = self.0.lock().unwrap().take();
            std::future::pending().await
        }
    }

    #[tokio::test]
    async fn a_panic_is_a_wrong_answer() {
        let hook = InProcess(Arc::new(Panics));
        let answer = hook.ask(&asked("{}")).await;
        assert_eq!(answer, Err(HookError::Wrong("it panicked".to_owned())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_ends_with_its_time() {
        let (sender, dropped) = oneshot::channel();
        let hook = InProcess(Arc::new(Hangs(Mutex::new(Some(sender)))));
        let (_, failed, _) = ask(&hook, &Policy::default(), &asked("{}")).await;
        assert_eq!(failed.unwrap().kind, HookFailure::Late);
        dropped.await.unwrap_err();
    }
}
