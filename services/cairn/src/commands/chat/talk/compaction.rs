//! `/compact`: a summary takes the place of older messages, while the person waits.

use super::super::view::cost_line;
use super::Talk;
use crate::commands::context::compaction::{Compacting, Happened, Replaced, nothing_older};
use crate::commands::context::{KEEP, rpc};
use crate::error::CliError;
use cairn_proto::event::CompactContext;

/// A compaction that has not ended.
#[derive(Debug)]
pub(super) struct Compaction {
    pub(super) run: Compacting,
    is_cancelled: bool,
}

impl Talk<'_, '_, '_> {
    /// Starts a compaction of the context. The summary keeps what the person says.
    pub(super) async fn compact(&mut self, keep_in_mind: String) -> Result<(), CliError> {
        if self.chat.is_new {
            return self.say("the session begins with your first message");
        }
        let compact = CompactContext {
            context: self.chat.context.clone(),
            keep: KEEP,
            keep_in_mind,
            model: self.chat.model.clone(),
            ..CompactContext::default()
        };
        let started = rpc::compact(self.chat.client, &self.chat.session, compact).await;
        let started = match started {
            Ok(started) => started,
            Err(error) => return self.complain(&error),
        };
        match Compacting::of(&self.chat.session, &started) {
            None => self.say(&nothing_older(KEEP)),
            Some(run) => {
                self.compaction = Some(Compaction {
                    run,
                    is_cancelled: false,
                });
                self.say("the model writes a summary of the older messages; Ctrl-C cancels it")
            }
        }
    }

    /// Takes what happens next in the compaction.
    pub(super) async fn advance_compaction(
        &mut self,
        happened: Result<Happened, CliError>,
    ) -> Result<(), CliError> {
        match happened {
            Ok(Happened::Replaced(replaced)) => self.show_replaced(replaced),
            Ok(Happened::Waits(_) | Happened::Continues) => self.look_for_questions().await,
            Ok(Happened::Paused) => {
                self.say("a person paused the compaction; it continues after cairn resume")
            }
            Ok(Happened::Completed) => self.end_work(),
            Ok(Happened::Cancelled) => {
                let stays = self.what_stays();
                self.say(&format!("the compaction was cancelled, and {stays}"))?;
                self.end_work()
            }
            Ok(Happened::Failed(why)) => {
                let stays = self.what_stays();
                let line = format!("✗ the compaction failed, and {stays}: {why}");
                self.terminal.line(&self.style.bad(&line))?;
                self.end_work()
            }
            Err(error) => {
                self.complain(&error)?;
                self.end_work()
            }
        }
    }

    fn what_stays(&self) -> &'static str {
        let compaction = self.compaction.as_ref();
        compaction.map_or("its messages stay", |it| it.run.what_stays())
    }

    fn show_replaced(&mut self, replaced: Replaced) -> Result<(), CliError> {
        let cost = cost_line(Some(&replaced.usage), replaced.duration_ms);
        self.say(&replaced.to_line())?;
        self.say(&cost)
    }

    /// A message waits for the end of a compaction, or of a turn that was interrupted, and begins the next turn.
    pub(super) fn wait_with(&mut self, line: &str, what: &str) -> Result<(), CliError> {
        if let Some(next) = &mut self.next_message {
            next.push('\n');
            next.push_str(line);
            return Ok(());
        }
        self.next_message = Some(line.to_owned());
        self.say(&format!("your message is sent after the {what}"))
    }

    /// Ctrl-C during a compaction. False if the person leaves.
    pub(super) async fn interrupt_compaction(&mut self) -> Result<bool, CliError> {
        let Some(compaction) = &mut self.compaction else {
            return Ok(true);
        };
        if std::mem::replace(&mut compaction.is_cancelled, true) {
            return Ok(self.interrupts < 2);
        }
        let run = compaction.run.run();
        self.interrupts = 0;
        self.question = None;
        self.say("cancelling the compaction")?;
        self.cancel(run).await?;
        Ok(true)
    }
}
