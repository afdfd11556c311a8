//! What follows from what a call would change: its preview, the files that nobody writes unasked, and the mode of
//! the session.

use super::{Decision, Previewed, ToolFacts, Unfinished, words};
use crate::event::{AttemptRef, CallFinished, CallPreview, CallPreviewed, CallRef, Effect};
use crate::rules::{SHELL_TOOL, Scope};
use crate::session::{Call, Mode};
use crate::transitions::Applied;

/// The folder of results, which is written without a person.
const OUTPUT: &str = "cairn-out/";

impl Decision<'_> {
    /// The owner has asked a tool what a call would change. A call that has ended since, or that was previewed, takes
    /// nothing.
    pub(super) fn previewed(&mut self, name: CallRef, outcome: Previewed) -> Applied {
        if !self.session.call(name).is_some_and(Call::needs_preview) {
            return Ok(());
        }
        match outcome {
            Previewed::Shown(preview) => self.take_preview(name, preview)?,
            Previewed::Failed { output, reason } => {
                let reason = match reason.as_str() {
                    "" => "ExecutionFailed",
                    reason => reason,
                };
                let output = self.naming_hook(name, reason, output);
                self.finish_call(name, output, reason)?;
            }
            Previewed::Rejudge { resolved } => {
                let call = name;
                self.take_unfinished(Unfinished::Rejudge { call, resolved })?;
            }
        }
        self.continue_after_owner(name.attempt)
    }

    fn take_preview(&mut self, name: CallRef, preview: CallPreview) -> Applied {
        let unread = self.unread(name, &preview);
        self.emit(CallPreviewed {
            call: name,
            preview,
        })?;
        match unread {
            Some(output) => self.finish_call(name, output, CallFinished::NOT_READ),
            None => self.judge(name),
        }
    }

    /// Why a file is not written: its model does not know it as it is. None if that is no reason: a plan step has no
    /// model, and results are written anew.
    fn unread(&self, name: CallRef, preview: &CallPreview) -> Option<String> {
        let CallPreview {
            path,
            before_digest,
            ..
        } = preview;
        let is_tool_step = self.is_tool_step(name.attempt);
        // A person looks at each write of a protected file, and no model may be able to read it.
        let is_seen_by_person = preview.is_protected;
        if before_digest.is_empty() || is_output(path) || is_tool_step || is_seen_by_person {
            return None;
        }
        let seen = self.session.seen_file(name.attempt, path);
        let is_known = seen.is_some_and(|digest| digest == before_digest);
        (!is_known).then(|| words::not_read(path, seen.is_some()))
    }

    /// Begins the calls of a reply that waited for a write which has ended.
    pub(super) fn continue_after_write(&mut self, attempt: AttemptRef) -> Applied {
        let running = self.session.attempt(attempt);
        let has_writes = running.is_some_and(|it| it.calls.iter().any(|call| call.previews));
        match has_writes {
            true => self.intend_requested_calls(attempt),
            false => Ok(()),
        }
    }

    /// The mode that a call is judged in. What may have been sent keeps the mode that it was judged in first.
    fn mode_of(&self, call: &Call) -> Mode {
        match call.effect {
            Effect::Effectful if call.input.is_none() => self.session.mode,
            _ => call.mode,
        }
    }

    /// Plan mode does not allow the call: it may change something, or nobody here knows what its tool does.
    pub(super) fn is_only_planned(&self, call: &Call, tool: &ToolFacts) -> bool {
        let only_reads = tool.is_built_in && tool.effect == Effect::Pure;
        self.mode_of(call) == Mode::Plan && !only_reads
    }

    /// The mode lets the call pass where only the default of its tool asks.
    pub(super) fn passes_by_mode(&self, call: &Call) -> bool {
        call.preview.is_some() && self.mode_of(call) == Mode::AcceptEdits
    }

    /// A call that only the default of its tool asks about is refused: no person follows its run, and it writes outside
    /// the folder of results. There a rule allows it.
    pub(super) fn is_unfollowed_write(&self, name: CallRef, call: &Call) -> bool {
        let run = self.session.run(name.attempt.run);
        let is_followed = run.is_some_and(|run| run.answers_questions);
        let tool = self.facts.tools.get(&call.call.name);
        let writes = tool.is_some_and(|tool| tool.previews);
        let preview = call.preview.as_deref();
        writes && !is_followed && !preview.is_some_and(|preview| is_output(&preview.path))
    }
}

fn is_output(path: &str) -> bool {
    path.starts_with(OUTPUT)
}

/// A person approves each such call, whatever rules, approvals and modes say: one that a hook requires an approval of,
/// one that may write a protected file, and a command that nothing confines.
pub(crate) fn asks_each_time(call: &Call, tool: &ToolFacts, scope: &Scope) -> bool {
    let is_of_shell = call.call.name == SHELL_TOOL && tool.server.is_none();
    call.demand.is_some() || is_of_shell && !tool.is_confined || is_protected(call, tool, scope)
}

/// The call may write a file that Cairn, git or an agent reads or runs on its own. A write of a server is known by its
/// arguments, and so is a write before its preview. What a command or another program changes is named after it has
/// ended.
fn is_protected(call: &Call, tool: &ToolFacts, scope: &Scope) -> bool {
    match &call.preview {
        Some(preview) => preview.is_protected,
        None => {
            let writes_files = tool.previews || tool.server.is_some();
            writes_files && tool.effect != Effect::Pure && scope.may_be_protected()
        }
    }
}
