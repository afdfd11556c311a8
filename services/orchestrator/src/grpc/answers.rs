//! The answers of turns, which only the journal has: a completed turn is answered by its last reply.

use crate::key::SessionKey;
use crate::requests::Requests;
use cairn_engine::event::{AttemptRef, EventKind, HooksAnswered, ReplyReceived};
use cairn_engine::message::FinishReason;
use cairn_proto::orchestrator as pb;
use cairn_rpc::RpcError;
use cairn_views::hooked::{Replaced, replaced};

/// Events before the end of a turn that its last reply is mostly among.
const TAIL: u64 = 8;

/// Adds its answer to a turn that completed.
pub(super) async fn add(
    requests: &Requests,
    key: &SessionKey,
    run: &mut pb::Run,
) -> Result<(), RpcError> {
    let is_completed = run.status() == pb::RunStatus::Completed && !run.is_compaction;
    if !is_completed || run.context.is_empty() || !run.answer.is_empty() {
        return Ok(());
    }
    let begin = run.first_seq.saturating_sub(1);
    let tail = run.last_seq.saturating_sub(TAIL).max(begin);
    let mut reply = LastReply {
        is_known: tail == begin,
        ..LastReply::default()
    };
    reply.read(requests, key, run, tail).await?;
    if !reply.is_whole {
        reply = LastReply {
            is_known: true,
            ..LastReply::default()
        };
        reply.read(requests, key, run, begin).await?;
    }
    run.answer = reply.text;
    Ok(())
}

/// The last reply, with the beginnings that were cut.
#[derive(Debug, Default)]
struct LastReply {
    text: String,
    /// The attempt of the reply before, if that was cut.
    cut: Option<AttemptRef>,
    /// Where the text of the last reply begins, and its attempt, while hooks are asked about it.
    held: Option<(usize, AttemptRef)>,
    /// What came before the next reply is known.
    is_known: bool,
    /// The text is there from its beginning.
    is_whole: bool,
}

impl LastReply {
    /// Takes the replies of a run after an event.
    async fn read(
        &mut self,
        requests: &Requests,
        key: &SessionKey,
        run: &pb::Run,
        mut after: u64,
    ) -> Result<(), RpcError> {
        while after < run.last_seq {
            let most = u32::try_from(run.last_seq - after).unwrap_or(u32::MAX);
            let page = requests.store().read_some(key, after, most).await?;
            let Some(last) = page.events.last() else {
                break;
            };
            after = last.seq;
            for stored in &page.events {
                let event = requests.store().event(key, stored).await?;
                match event.kind {
                    EventKind::ReplyReceived(reply) if reply.attempt.run == run.number => {
                        self.take(&reply);
                    }
                    EventKind::HooksAnswered(answered) => self.replace(&answered),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Takes the next reply. It continues one that was cut at the limit of its length.
    fn take(&mut self, reply: &ReplyReceived) {
        if self.cut.take() != Some(reply.attempt) {
            self.text.clear();
            self.is_whole = self.is_known;
        }
        self.is_known = true;
        self.held = reply.held.then_some((self.text.len(), reply.attempt));
        self.text.push_str(&reply.text);
        let is_cut = reply.finish == FinishReason::Length && reply.calls.is_empty();
        self.cut = is_cut.then_some(reply.attempt);
    }

    /// Takes what hooks put in place of the last reply.
    fn replace(&mut self, answered: &HooksAnswered) {
        if let (Some((begin, held)), Some(Replaced::Reply { attempt, text, .. })) =
            (self.held, replaced(answered))
            && held == attempt
        {
            self.text.truncate(begin);
            self.text.push_str(text);
        }
    }
}
