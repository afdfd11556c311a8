//! Answers calls of state tools that need I/O.
//!
//! Each owner of the session finds an answer anew until one is recorded, so nothing here may do harm when it is
//! done again. An answer ends with its call: [`Owner::drop_done`] drops what the state no longer asks for.

use super::long_results::of_text;
use super::recall::Recall;
use super::retrieve::{Earlier, passages};
use super::save_page::save;
use super::{Message, Owner, report, skills};
use crate::deps::Deps;
use crate::key::SessionKey;
use crate::store::{Store, may_pass};
use cairn_engine::decide::{Answer, Question};
use cairn_engine::event::CallRef;
use cairn_engine::outstanding::Work;
use cairn_engine::result::{Excerpt, ResultRequest};
use cairn_engine::session::Unsent;
use cairn_rpc::RpcError;
use futures::stream;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Answers of a session that are found at a time. Further ones begin when these have ended.
const MOST_AT_A_TIME: usize = 4;

/// An answer that takes longer is a failure.
const LONGEST: Duration = Duration::from_secs(30);

/// One try to read from the store may take so long.
const TRY: Duration = Duration::from_secs(5);

/// The pause before the store is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// What answers are found with, beside the store.
struct Asker {
    deps: Arc<Deps>,
    key: SessionKey,
    /// Most bytes that the model gets at once.
    most: usize,
    /// The key of the call.
    call_key: String,
    recall: Arc<Recall>,
    /// What the requests of the attempt do not have; none for a question that is not about it.
    unsent: Option<Unsent>,
    /// The last event of the state that the question is of.
    through: u64,
}

impl Owner {
    /// Begins to find the answer of a call, unless too many are being found.
    pub(super) fn find_answer(&mut self, work: Work, call: CallRef) {
        let under_way = self.active.keys();
        let under_way = under_way.filter(|work| matches!(work, Work::Answer(_)));
        if under_way.count() >= MOST_AT_A_TIME {
            return;
        }
        let Some(question) = self.session.question(call) else {
            return;
        };
        let asker = self.asker(call, question.as_ref().ok());
        let found = async move {
            let answer = match question {
                Ok(question) => within_limit(&asker, question).await,
                Err(refused) => refused,
            };
            Message::Answered { call, answer }
        };
        self.begin_work(work, stream::once(found), None);
    }

    fn asker(&self, call: CallRef, question: Option<&Question>) -> Asker {
        let (session, key) = (&self.session, &self.key);
        let most = self.deps.config.result_bytes;
        let unsent = match question {
            Some(Question::Retrieve(asked)) if asked.scope.has_messages() => {
                session.unsent(call.attempt)
            }
            _ => None,
        };
        Asker {
            deps: self.deps.clone(),
            key: key.clone(),
            most: session.result_bytes(call.attempt.run, most),
            call_key: session.call_key(key.namespace.as_str(), &key.id, call),
            recall: self.knowledge.recall.clone(),
            unsent,
            through: session.seq,
        }
    }
}

async fn within_limit(asker: &Asker, question: Question) -> Answer {
    // The store may have taken the page.
    let then = match question {
        Question::SaveKnowledge(_) => {
            "look with retrieve whether the page is saved before you save it again"
        }
        _ => "try again, or ask for less",
    };
    let found = timeout(LONGEST, find(asker, question)).await;
    found.unwrap_or_else(|_| {
        let limit = LONGEST.as_secs();
        let message = format!("no answer was found within {limit} s; {then}");
        Answer::failed(Answer::TIMEOUT, message)
    })
}

async fn find(asker: &Asker, question: Question) -> Answer {
    let Asker {
        deps, key, most, ..
    } = asker;
    let (store, most) = (&deps.store, *most);
    let found = match question {
        Question::ReadResult(asked) => excerpt(store, key, asked, most).await.map(Answer::found),
        Question::ReadSkill(asked) => skills::read(deps.dispatch.tools(), key, &asked, most)
            .await
            .map(Answer::found),
        Question::Report { run } => match report::markdown(store, key, run).await {
            Ok(text) => Ok(of_text(store, key, text, most).await),
            Err(message) => Err(message),
        },
        Question::Retrieve(asked) => {
            let earlier = asker.unsent.as_ref().map(|unsent| Earlier {
                recall: &asker.recall,
                unsent,
                through: asker.through,
            });
            match passages(deps, key, &asked, earlier.as_ref()).await {
                Ok(text) => Ok(of_text(store, key, text, most).await),
                Err(message) => Err(message),
            }
        }
        Question::SaveKnowledge(page) => save(deps, key, &page, &asker.call_key)
            .await
            .map(Answer::found),
    };
    found.unwrap_or_else(|message| Answer::failed(Answer::FAILED, message))
}

/// Reads the blobs of a long result, one after the other, as far as the answer needs them.
///
/// # Errors
/// Why there is no answer, in words for the model.
async fn excerpt(
    store: &Store,
    key: &SessionKey,
    asked: ResultRequest,
    most: usize,
) -> Result<String, String> {
    let (handle, blobs) = (asked.whole.handle.clone(), asked.whole.blobs.clone());
    let mut excerpt = Excerpt::new(asked, most);
    for blob in blobs {
        if excerpt.is_done() {
            break;
        }
        let read = || store.get_blob(key, blob.digest.clone());
        let part = again(read).await.map_err(|error| {
            tracing::error!(session = %key, %error, handle, "a long result cannot be read");
            format!("'{handle}' cannot be read: the store has lost a part of it")
        })?;
        let text = std::str::from_utf8(&part)
            .map_err(|_| format!("'{handle}' is binary; only text can be read"))?;
        excerpt.take(text)?;
    }
    excerpt.finish()
}

/// Reads from the store, again and again while it may answer.
///
/// # Errors
/// The store cannot answer at all.
pub(super) async fn again<T, F>(read: impl Fn() -> F) -> Result<T, RpcError>
where
    F: Future<Output = Result<T, RpcError>>,
{
    loop {
        match timeout(TRY, read()).await {
            Ok(Err(error)) if !may_pass(&error) => return Err(error),
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(_)) | Err(_) => sleep(PAUSE).await,
        }
    }
}

/// The same for what has no limit for one try: a search may have to read all pages first, and a change that is given
/// up may still happen.
///
/// # Errors
/// The store refuses, or cannot answer at all.
pub(super) async fn persist<T, F>(ask: impl Fn() -> F) -> Result<T, RpcError>
where
    F: Future<Output = Result<T, RpcError>>,
{
    loop {
        match ask().await {
            Err(error) if may_pass(&error) => sleep(PAUSE).await,
            done => return done,
        }
    }
}
