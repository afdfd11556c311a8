//! What a run waits for, asked in line on a terminal.
//!
//! Lines are read only while a question stands, so that what was typed before it is no answer to it.

use crate::client::Client;
use crate::commands::ask::{self, Said};
use crate::commands::decide;
use crate::context::Context;
use crate::error::{CliError, INTERRUPTED};
use crate::ui::live::{size, wrap_told};
use crate::ui::out;
use crate::ui::questions::before_deciding;
use crate::ui::style::Style;
use cairn_proto::orchestrator::{ListPendingRequest, Pending};
use cairn_rpc::text::escape;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::getpgrp;
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp};
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Read as _, Write as _, stdin, stdout};
use std::os::fd::AsFd as _;
use std::time::Duration;
use tokio::time::{interval, sleep};

/// Lines are no wider, however wide the terminal is.
const WIDEST: usize = 120;
/// Most bytes of a line: a terminal gives no more at once.
const LINE: usize = 4096;
/// How often a line is looked for.
const LOOK: Duration = Duration::from_millis(30);
/// How often it is looked whether the question has its answer from elsewhere.
const ELSEWHERE: Duration = Duration::from_millis(500);

/// What came of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    /// An answer, from here or from elsewhere.
    Answer,
    /// The person leaves it open.
    Leaves,
    /// The person stops the command.
    Stop,
}

/// A person at the terminal.
#[derive(Debug)]
pub(super) struct Person {
    terminal: File,
    style: Style,
    knows_how_to_leave: bool,
}

impl Person {
    /// The person who reads what is printed and can answer, if there is one.
    ///
    /// # Errors
    /// The system has no room for another descriptor.
    pub(super) fn found(context: &Context) -> Result<Option<Self>, CliError> {
        if !has_person(context) {
            return Ok(None);
        }
        Ok(Some(Self {
            terminal: File::from(stdin().as_fd().try_clone_to_owned()?),
            style: Style::new(context.color),
            knows_how_to_leave: false,
        }))
    }

    /// Asks the question until it has an answer, here or elsewhere.
    ///
    /// # Errors
    /// The terminal has gone; the services stay out of reach.
    pub(super) async fn ask(
        &mut self,
        client: &mut Client<'_>,
        question: &Pending,
    ) -> Result<Came, CliError> {
        let stop = client.context().stop.clone();
        self.show(question)?;
        if let Some((confirm, meaning)) = before_deciding(client.context().lacks_hooks, question) {
            let told = wrap_told(&format!("{confirm}  {meaning}"), columns());
            let told: Vec<String> = told.iter().map(|line| self.style.dim(line)).collect();
            lines(&told)?;
        }
        loop {
            self.prompt(question)?;
            let line = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(Came::Stop),
                line = self.line() => line?,
                () = has_answer(client, question) => {
                    out::line("")?;
                    out::line(&self.style.dim("the question has its answer"))?;
                    return Ok(Came::Answer);
                }
            };
            let Some(line) = line else {
                out::line("")?;
                return Ok(Came::Leaves);
            };
            let outcome = match ask::said(question, &line) {
                Some(Said::Outcome(outcome)) => outcome,
                Some(Said::Whole) => {
                    lines(&ask::whole(self.style, question, columns()))?;
                    continue;
                }
                None => {
                    out::line(&self.style.dim(&ask::refused(question)))?;
                    continue;
                }
            };
            let given = outcome.clone();
            let decided = decide::answer(client, &question.session, &question.id, given).await;
            match decided {
                Ok(answer) => {
                    let from = answer.settle_after_unix_ms;
                    let told = decide::told(client, question, &outcome, from).await;
                    let told = told.map(|told| wrap_told(&escape(&told), columns()));
                    let told = told.into_iter().flatten();
                    let told: Vec<String> = told.map(|line| self.style.dim(&line)).collect();
                    lines(&told)?;
                    return Ok(Came::Answer);
                }
                Err(error) if error.code == INTERRUPTED => return Ok(Came::Stop),
                // What is open is asked again.
                Err(error) => {
                    self.complain(&error)?;
                    return Ok(Came::Answer);
                }
            }
        }
    }

    fn show(&mut self, question: &Pending) -> Result<(), CliError> {
        let mut shown = ask::lines(self.style, question, columns());
        if question.step > 0 {
            shown.insert(
                shown.len().min(1),
                format!("  {:<10}{}", "step", question.step),
            );
        }
        if !std::mem::replace(&mut self.knows_how_to_leave, true) {
            shown.push(self.style.dim("  Ctrl-D leaves it open, and the run waits"));
        }
        lines(&shown)
    }

    /// Shows what is asked, and forgets what was typed before.
    fn prompt(&self, question: &Pending) -> Result<(), CliError> {
        tcflush(&self.terminal, QueueSelector::IFlush).map_err(io::Error::from)?;
        let asked = self.style.asks(&ask::prompt(question));
        let mut out = stdout().lock();
        write!(out, "{asked}\n{} ", self.style.active("›"))?;
        out.flush()?;
        Ok(())
    }

    /// The next line; none if the person leaves. Safe to drop at any moment.
    async fn line(&self) -> Result<Option<String>, CliError> {
        let mut looks = interval(LOOK);
        loop {
            looks.tick().await;
            if !self.has_line()? {
                continue;
            }
            let mut bytes = [0; LINE];
            match (&self.terminal).read(&mut bytes) {
                Ok(0) => return Ok(None),
                Ok(count) => {
                    let line = String::from_utf8_lossy(&bytes[..count]);
                    return Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned()));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether a whole line waits. A terminal gives no part of one.
    fn has_line(&self) -> io::Result<bool> {
        let mut keys = [PollFd::new(&self.terminal, PollFlags::IN)];
        Ok(retry_on_intr(|| poll(&mut keys, Some(&Timespec::default())))? > 0)
    }

    /// An error that does not end the command.
    fn complain(&self, error: &CliError) -> Result<(), CliError> {
        out::line(&self.style.bad(&format!("✗ {}", escape(&error.message))))?;
        let mut hints = error.hint.lines();
        hints.try_for_each(|hint| out::line(&format!("  {}", escape(hint))))
    }
}

/// Whether a person reads what is printed and can answer.
pub(in crate::commands) fn has_person(context: &Context) -> bool {
    context.live && stdin().is_terminal() && is_in_front()
}

/// Whether the keys of the terminal come to this process: those of a command in the background do not. A terminal
/// that controls no processes gives its keys to every reader.
fn is_in_front() -> bool {
    let group = tcgetpgrp(stdin()).ok();
    group.is_none_or(|group| group == getpgrp())
}

fn columns() -> usize {
    size().0.min(WIDEST)
}

fn lines(lines: &[String]) -> Result<(), CliError> {
    lines.iter().try_for_each(|line| out::line(line))
}

/// Waits until the question is open no more. While the services are out of reach it is.
async fn has_answer(client: &Client<'_>, question: &Pending) {
    loop {
        sleep(ELSEWHERE).await;
        let request = ListPendingRequest {
            session: question.session.clone(),
            ..ListPendingRequest::default()
        };
        let Ok(listed) = client.orchestrator().list_pending(request).await else {
            continue;
        };
        let mut open = listed.into_inner().pending.into_iter();
        if !open.any(|it| it.id == question.id && !it.answered) {
            return;
        }
    }
}
