//! A conversation at a terminal.

mod compaction;

use super::editor::Typed;
use super::slash::{self, Slash};
use super::submit::{Next, Turn};
use super::terminal::{Input, Terminal};
use super::view::{Shown, State, View};
use super::{Chat, Leaving, continuation, local, start, text_of, under_way};
use crate::commands::ask::{self, Said};
use crate::commands::context::compaction::Happened;
use crate::commands::context::rpc;
use crate::commands::decide;
use crate::error::{CliError, INTERRUPTED};
use crate::ui::approvals::is_command;
use crate::ui::live::wrap_told;
use crate::ui::style::Style;
use cairn_proto::event::WaitReason;
use cairn_proto::event::settlement::Outcome;
use cairn_proto::orchestrator::turn_event::Event;
use cairn_proto::orchestrator::{Pending, SubmitTurnRequest, SubmitTurnResponse};
use cairn_rpc::text::escape;
use compaction::Compaction;
use std::future::pending;
use std::pin::pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// How long a person who leaves waits for the services to have the last message.
const SEND: Duration = Duration::from_secs(5);
/// How long a person who leaves waits for the end of a turn that they interrupted.
const END: Duration = Duration::from_secs(2);
/// Nothing more of a turn has come for so long: what came is not its past, which comes at once.
const QUIET: Duration = Duration::from_millis(100);

/// Converses until the person leaves. An interrupted turn continues first.
pub(super) async fn talk(
    chat: &mut Chat<'_, '_>,
    active: Option<SubmitTurnRequest>,
    notes: &[String],
) -> Result<ExitCode, CliError> {
    let context = chat.client.context();
    let (style, stop) = (Style::new(context.color), context.stop.clone());
    let earlier = match chat.is_new {
        true => Vec::new(),
        false => rpc::messages_of_user(chat.client, &chat.session, &chat.context).await,
    };
    let mut terminal = Terminal::take(style, earlier)?;
    greet(&mut terminal, style, chat, notes)?;
    let mut talk = Talk {
        chat,
        terminal,
        style,
        turn: None,
        compaction: None,
        question: None,
        is_ahead: false,
        has_questions: false,
        is_settling: false,
        approved: None,
        next_message: None,
        interrupts: 0,
    };
    if let Some(request) = active {
        talk.say(&under_way(&request))?;
        talk.begin(request);
    }
    loop {
        talk.prompt()?;
        tokio::select! {
            () = stop.cancelled() => {
                talk.leave()?;
                return Err(CliError::new("interrupted").code(INTERRUPTED));
            }
            input = talk.terminal.input() => {
                if !Box::pin(talk.take(input?)).await? {
                    tokio::select! {
                        sent = Box::pin(talk.finish()) => sent?,
                        () = stop.cancelled() => {}
                    }
                    talk.leave()?;
                    return Ok(ExitCode::SUCCESS);
                }
            }
            came = next(&mut talk.turn, &mut talk.compaction, talk.chat) => match came {
                Came::OfTurn(next) => Box::pin(talk.advance(next)).await?,
                Came::OfCompaction(next) => Box::pin(talk.advance_compaction(next)).await?,
            },
            // The past of a turn does not come between a question and the line for its answer.
            () = sleep(QUIET), if talk.has_questions || talk.is_ahead => {
                if talk.has_questions {
                    Box::pin(talk.look_for_questions()).await?;
                }
            }
        }
    }
}

/// Shows what stands above a conversation.
fn greet(
    terminal: &mut Terminal,
    style: Style,
    chat: &Chat<'_, '_>,
    notes: &[String],
) -> Result<(), CliError> {
    let header = start::header(chat, Terminal::columns());
    let without_price = start::without_price(chat);
    terminal.knows_price = without_price.is_some();
    for line in header.iter().chain(&without_price).chain(notes) {
        terminal.line(&style.dim(line))?;
    }
    terminal.line("")
}

struct Talk<'t, 'c, 'a> {
    chat: &'t mut Chat<'c, 'a>,
    terminal: Terminal,
    style: Style,
    turn: Option<Running>,
    compaction: Option<Compaction>,
    /// What the turn or the compaction waits for.
    question: Option<Pending>,
    /// Keys wait that were pressed before the person saw the question.
    is_ahead: bool,
    /// The turn waited or continued since its questions were looked for.
    has_questions: bool,
    /// The last answer takes effect later.
    is_settling: bool,
    /// The step of the command that was approved last, until the next question.
    approved: Option<u32>,
    /// A message that came too late for the running turn.
    next_message: Option<String>,
    /// How often Ctrl-C was pressed since the last line.
    interrupts: u32,
}

/// A turn that has not ended.
struct Running {
    turn: Turn,
    /// What it says first.
    text: String,
    view: View,
    began: Instant,
    /// It is cancelled as soon as it has a number.
    is_cancelled: bool,
}

/// What comes next, of the turn or of the compaction.
enum Came {
    OfTurn(Result<Next, CliError>),
    OfCompaction(Result<Happened, CliError>),
}

async fn next(
    turn: &mut Option<Running>,
    compaction: &mut Option<Compaction>,
    chat: &mut Chat<'_, '_>,
) -> Came {
    match (turn, compaction) {
        (Some(running), _) => Came::OfTurn(running.turn.next(chat.client).await),
        (None, Some(it)) => Came::OfCompaction(Box::pin(it.run.next(chat.client)).await),
        (None, None) => pending().await,
    }
}

fn unreadable(error: &str) -> CliError {
    CliError::new(format!("cannot read the terminal: {error}"))
}

impl Talk<'_, '_, '_> {
    /// Lets the person type, unless a turn or a compaction works without a question.
    fn prompt(&mut self) -> Result<(), CliError> {
        let Some(question) = &self.question else {
            self.is_ahead = false;
            self.terminal.end_question()?;
            return match self.at_work() {
                Some(_) => Ok(()),
                None => self.terminal.ask_for_message(),
            };
        };
        // What was typed before the person saw the question is no answer to it.
        self.is_ahead = self.is_ahead && self.terminal.has_keys()?;
        match self.is_ahead {
            true => self.terminal.ask_for_message(),
            false => {
                let asked = ask::prompt(question);
                self.terminal.ask_for_answer(&question.id, &asked)
            }
        }
    }

    /// Takes what the terminal brings. False if the person leaves.
    async fn take(&mut self, input: Input) -> Result<bool, CliError> {
        let typed = match input {
            Input::Typed(typed) => typed,
            Input::Message(text) => {
                self.terminal.message(text)?;
                return Ok(true);
            }
        };
        match typed {
            Typed::Message(line) => {
                self.interrupts = 0;
                self.message(&line).await
            }
            Typed::Answer { question, line } => {
                self.interrupts = 0;
                self.answer(&question, &line).await
            }
            Typed::Interrupt => self.interrupt().await,
            Typed::End => Ok(false),
            Typed::Failed(error) => Err(unreadable(&error)),
        }
    }

    /// A command, something for the running turn, or the next turn. False if the person leaves.
    async fn message(&mut self, line: &str) -> Result<bool, CliError> {
        if let Some(command) = slash::parse(line) {
            return self.command(command).await;
        }
        if line.trim().is_empty() {
            return Ok(true);
        }
        match (&self.turn, &self.compaction) {
            // It is lost on a turn that ends.
            (Some(running), _) if running.is_cancelled => self.wait_with(line, "turn")?,
            (Some(_), _) => self.steer(line).await?,
            (None, Some(_)) => self.wait_with(line, "compaction")?,
            (None, None) => match self.chat.prepare().await {
                Ok(()) => {
                    let request = self.chat.turn(line);
                    self.begin(request);
                }
                Err(error) => self.complain(&error)?,
            },
        }
        Ok(true)
    }

    async fn command(&mut self, command: Result<Slash, String>) -> Result<bool, CliError> {
        let waits = command.as_ref().ok().and_then(Slash::waits_for_end);
        // The messages of a turn join the context when it has ended, and it is steered in this session.
        if let (Some(name), Some(what)) = (waits, self.at_work()) {
            self.say(&format!("a {what} works; enter {name} after its end"))?;
            return Ok(true);
        }
        match command {
            Ok(Slash::Quit) => return Ok(false),
            Ok(Slash::Compact(keep)) => Box::pin(self.compact(keep)).await?,
            Ok(command) => {
                let shown = local::run(self.chat, &command).await;
                self.report(shown)?;
            }
            Err(error) => self.say(&error)?,
        }
        Ok(true)
    }

    /// What works for this conversation.
    fn at_work(&self) -> Option<&'static str> {
        match (&self.turn, &self.compaction) {
            (Some(_), _) => Some("turn"),
            (None, Some(_)) => Some("compaction"),
            (None, None) => None,
        }
    }

    fn begin(&mut self, request: SubmitTurnRequest) {
        self.chat.leaving = Leaving::Freely;
        self.turn = Some(Running {
            text: text_of(&request).to_owned(),
            turn: Turn::new(request),
            view: View::new(self.style, Terminal::columns()).after(self.chat.expected()),
            began: Instant::now(),
            is_cancelled: false,
        });
    }

    /// The answer to the question with this id, or a command. False if the person leaves.
    async fn answer(&mut self, id: &str, line: &str) -> Result<bool, CliError> {
        if let Some(command) = slash::parse(line) {
            return self.command(command).await;
        }
        let Some(question) = self.question.as_ref().filter(|it| it.id == id) else {
            self.say("the question has its answer already, and yours was not sent")?;
            return Ok(true);
        };
        let outcome = match ask::said(question, line) {
            Some(Said::Outcome(outcome)) => outcome,
            Some(Said::Whole) => {
                let lines = ask::whole(self.style, question, Terminal::columns());
                self.terminal.lines(&lines)?;
                return Ok(true);
            }
            None => {
                let refused = ask::refused(question);
                self.say(&refused)?;
                return Ok(true);
            }
        };
        let question = question.clone();
        let session = self.chat.session.clone();
        let given = outcome.clone();
        match decide::answer(self.chat.client, &session, &question.id, given).await {
            Ok(answer) => {
                let from = answer.settle_after_unix_ms;
                self.confirm(&question, &outcome, from).await?;
            }
            Err(error) => self.complain(&error)?,
        }
        self.look_for_questions().await?;
        Ok(true)
    }

    /// Says what follows from an answer, if it is more than that the turn continues.
    async fn confirm(
        &mut self,
        question: &Pending,
        outcome: &Outcome,
        from: i64,
    ) -> Result<(), CliError> {
        let approves = matches!(outcome, Outcome::Approve(_) | Outcome::ApproveAlways(_));
        self.approved = (approves && is_command(question)).then_some(question.step);
        self.is_settling = from > 0;
        let told = decide::told(self.chat.client, question, outcome, from).await;
        let Some(mut told) = told else {
            return Ok(());
        };
        if self.is_settling {
            told.push_str(". Ctrl-C ends the turn and drops the call.");
        }
        self.say(&told)
    }

    /// Asks the oldest question of the turn or the compaction, if it has one. What is asked already is not shown
    /// again.
    async fn look_for_questions(&mut self) -> Result<(), CliError> {
        self.has_questions = false;
        let of_turn = self.turn.as_ref().map(|running| running.view.run);
        let of_compaction = self.compaction.as_ref().map(|it| it.run.run());
        let Some(run) = of_turn.or(of_compaction) else {
            return Ok(());
        };
        let open = self.chat.questions(run).await;
        let next = match open {
            Ok(open) => open.into_iter().next(),
            Err(error) => return self.complain(&error),
        };
        let asked = std::mem::replace(&mut self.question, next).map(|question| question.id);
        // A turn that is continued comes with all its earlier waits.
        let is_new = |question: &&Pending| asked.as_ref() != Some(&question.id);
        if self.question.as_ref().is_none_or(|it| is_new(&it)) {
            self.terminal.end_question()?;
        }
        // While one is asked about, no command of its reply begins.
        let approved = self.approved.take();
        let waits = |question: &Pending| {
            question.reason() == WaitReason::Approval && approved == Some(question.step)
        };
        if self.question.as_ref().is_some_and(waits) {
            self.say("the command is approved; it waits for the other question")?;
        }
        if let Some(question) = self.question.as_ref().filter(is_new) {
            self.is_ahead = self.terminal.has_keys()?;
            let lines = ask::lines(self.style, question, Terminal::columns());
            self.terminal.lines(&lines)?;
        }
        Ok(())
    }

    async fn steer(&mut self, line: &str) -> Result<(), CliError> {
        // A line after one that waits for the next turn does not overtake it.
        if let Some(next) = &mut self.next_message {
            next.push('\n');
            next.push_str(line);
            return Ok(());
        }
        match self.chat.steer(line).await {
            Ok(()) => self.say("↳ the model reads this before the turn ends"),
            Err(error) if error.reason == "NO_RUNNING_TURN" => {
                self.next_message = Some(line.to_owned());
                Ok(())
            }
            Err(error) => self.complain(&error),
        }
    }

    /// Ctrl-C. False if the person leaves.
    async fn interrupt(&mut self) -> Result<bool, CliError> {
        self.interrupts += 1;
        if self.at_work() == Some("compaction") {
            return self.interrupt_compaction().await;
        }
        let Some(running) = &mut self.turn else {
            if self.interrupts == 1 {
                self.say("Ctrl-C again or Ctrl-D leaves")?;
            }
            return Ok(self.interrupts < 2);
        };
        if std::mem::replace(&mut running.is_cancelled, true) {
            return Ok(self.interrupts < 2);
        }
        self.question = None;
        self.has_questions = false;
        self.chat.leaving = Leaving::Interrupted;
        let run = running.view.run;
        self.say("interrupting the turn; Ctrl-C again leaves")?;
        match run {
            0 => Ok(true),
            run => self.cancel_turn(run).await,
        }
    }

    /// Cancels the turn. Lines that the person enters meanwhile wait for its end. False if the person leaves, after
    /// a moment at most in which the turn is cancelled.
    async fn cancel_turn(&mut self, run: u32) -> Result<bool, CliError> {
        let (mut lines, mut leaves) = (Vec::new(), false);
        // What is pressed twice in a row leaves; a line in between means a person who goes on.
        let mut is_pressed = true;
        let cancelled = {
            let mut cancelled = pin!(self.chat.cancel(run));
            loop {
                tokio::select! {
                    cancelled = &mut cancelled => break Some(cancelled),
                    () = sleep(END), if leaves => break None,
                    input = self.terminal.input() => match input? {
                        Input::Message(text) => self.terminal.message(text)?,
                        Input::Typed(Typed::Message(line) | Typed::Answer { line, .. }) => {
                            lines.push(line);
                            is_pressed = false;
                        }
                        Input::Typed(Typed::Interrupt | Typed::End) if leaves => break None,
                        Input::Typed(Typed::End) => leaves = true,
                        Input::Typed(Typed::Interrupt) if is_pressed => leaves = true,
                        Input::Typed(Typed::Interrupt) => is_pressed = true,
                        Input::Typed(Typed::Failed(error)) => return Err(unreadable(&error)),
                    },
                }
            }
        };
        match cancelled {
            Some(Err(error)) => self.complain(&error)?,
            Some(Ok(())) => {}
            None => self.chat.leaving = Leaving::AtOnce,
        }
        if leaves {
            for line in lines {
                self.keep_for_later(line);
            }
            return Ok(false);
        }
        for line in lines {
            if !Box::pin(self.message(&line)).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A line that the person entered while they left. They are told that it is not sent.
    fn keep_for_later(&mut self, line: String) {
        match &mut self.next_message {
            Some(next) => {
                next.push('\n');
                next.push_str(&line);
            }
            None => self.next_message = Some(line),
        }
    }

    async fn cancel(&mut self, run: u32) -> Result<(), CliError> {
        if run == 0 {
            return Ok(());
        }
        match self.chat.cancel(run).await {
            Ok(()) => Ok(()),
            Err(error) => self.complain(&error),
        }
    }

    /// Takes what comes next of the turn.
    async fn advance(&mut self, next: Result<Next, CliError>) -> Result<(), CliError> {
        match next {
            Ok(Next::Response(response)) => self.show(&response).await,
            Ok(Next::Lost(text)) => {
                self.terminal.end_text()?;
                self.say(&text)
            }
            Ok(Next::Back) => self.say("connected again"),
            Err(error) => {
                self.terminal.end_text()?;
                let error = self.chat.refused(error);
                self.complain(&error)?;
                self.end_work()
            }
        }
    }

    async fn show(&mut self, response: &SubmitTurnResponse) -> Result<(), CliError> {
        let Some(running) = &mut self.turn else {
            return Ok(());
        };
        let had_begun = running.view.run > 0;
        let ms = u64::try_from(running.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        for shown in running.view.take(response, ms) {
            match shown {
                Shown::Text(text) => self.terminal.text(&text)?,
                Shown::End => self.terminal.end_text()?,
                Shown::Line(line) => self.terminal.line(&line)?,
            }
        }
        self.chat.active.clone_from(&running.view.context);
        let (run, is_over) = (running.view.run, running.view.is_over());
        let is_running = running.view.state == State::Running;
        let offer = continuation::offer(running.view.journal_permille, None);
        if !had_begun && running.is_cancelled {
            self.cancel(run).await?;
        }
        if is_over {
            if let Some(offer) = offer {
                self.terminal.line(&self.style.asks(&offer))?;
            }
            return self.end_work();
        }
        let events = || response.events.iter().filter_map(|it| it.event.as_ref());
        let continues = |event: &Event| matches!(event, Event::Resumed(_));
        if events().any(continues) && std::mem::take(&mut self.is_settling) {
            self.say("the answer has taken effect, and the turn continues")?;
        }
        let asks = |event: &Event| matches!(event, Event::Waiting(_) | Event::Resumed(_));
        self.has_questions |= events().any(asks);
        // It has its answer from elsewhere, and the text of a reply leaves no pause.
        match self.has_questions && is_running && self.question.is_some() {
            true => self.look_for_questions().await,
            false => Ok(()),
        }
    }

    /// The turn or the compaction has ended.
    fn end_work(&mut self) -> Result<(), CliError> {
        (self.turn, self.compaction, self.question) = (None, None, None);
        (self.has_questions, self.is_settling, self.approved) = (false, false, None);
        // Ctrl-C twice leaves, also if the turn ends between them.
        let is_interrupted = self.chat.leaving != Leaving::Freely;
        self.interrupts = u32::from(is_interrupted && self.interrupts > 0);
        self.terminal.end_question()?;
        self.terminal.line("")?;
        if let Some(text) = self.next_message.take() {
            let request = self.chat.turn(&text);
            self.begin(request);
        }
        Ok(())
    }

    /// The person leaves: the services get the turn that was begun, and a turn that was interrupted ends first, so that
    /// no program of it works on. Takes a moment at most.
    async fn finish(&mut self) -> Result<(), CliError> {
        match self.chat.leaving {
            Leaving::Freely => {
                let sent = timeout(SEND, Box::pin(self.send_begun())).await;
                return sent.unwrap_or(Ok(()));
            }
            Leaving::AtOnce => return Ok(()),
            Leaving::Interrupted => {}
        }
        // It begins no turn any more.
        let next = self.next_message.take();
        match timeout(END, Box::pin(self.end_interrupted())).await {
            Ok(ended) => ended?,
            Err(_) => self.chat.leaving = Leaving::AtOnce,
        }
        self.next_message = next;
        Ok(())
    }

    /// Waits until the turn that was interrupted has ended, or for a further Ctrl-C.
    async fn end_interrupted(&mut self) -> Result<(), CliError> {
        while self.turn.is_some() {
            tokio::select! {
                input = self.terminal.input() => match input? {
                    Input::Message(text) => self.terminal.message(text)?,
                    Input::Typed(Typed::Interrupt) => {
                        self.chat.leaving = Leaving::AtOnce;
                        return Ok(());
                    }
                    Input::Typed(Typed::Failed(error)) => return Err(unreadable(&error)),
                    Input::Typed(_) => {}
                },
                came = next(&mut self.turn, &mut self.compaction, self.chat) => {
                    if let Came::OfTurn(next) = came {
                        Box::pin(self.advance(next)).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits until the services have the turn that was begun.
    async fn send_begun(&mut self) -> Result<(), CliError> {
        while let Some(running) = self.turn.as_mut().filter(|it| it.view.run == 0) {
            let next = running.turn.next(self.chat.client).await;
            self.advance(next).await?;
        }
        Ok(())
    }

    fn leave(&mut self) -> Result<(), CliError> {
        let begun = self.turn.as_ref().filter(|it| it.view.run == 0);
        let begun = begun.map(|it| format!("perhaps not sent: {}", it.text));
        let is_kept = begun.is_none();
        let next = self.next_message.take();
        let next = next.map(|text| format!("not sent: {text}"));
        for text in begun.into_iter().chain(next) {
            self.say(&text)?;
        }
        if self.chat.is_new {
            return self.say("nothing was said, so there is no session");
        }
        let is_cancelled = self.turn.as_ref().is_some_and(|it| it.is_cancelled);
        let what = match self.at_work().filter(|_| is_kept && !is_cancelled) {
            Some(what) => format!("the {what} is kept, and continues when you come back with"),
            None => "come back with".to_owned(),
        };
        let text = format!("{what}: {}", self.chat.come_back());
        self.say(&text)
    }

    fn say(&mut self, text: &str) -> Result<(), CliError> {
        let lines = wrap_told(&escape(text), Terminal::columns());
        let mut lines = lines.iter().map(|line| self.style.dim(line));
        lines.try_for_each(|line| self.terminal.line(&line))
    }

    fn report(&mut self, shown: Result<Vec<String>, CliError>) -> Result<(), CliError> {
        match shown {
            Ok(lines) => self.terminal.lines(&lines),
            Err(error) => self.complain(&error),
        }
    }

    /// An error that does not end the conversation.
    fn complain(&mut self, error: &CliError) -> Result<(), CliError> {
        let text = format!("✗ {}", escape(&error.message));
        let lines = wrap_told(&text, Terminal::columns());
        let mut lines = lines.iter().map(|line| self.style.bad(line));
        lines.try_for_each(|line| self.terminal.line(&line))?;
        let hints = error.hint.lines();
        let hints: Vec<String> = hints.map(|line| format!("  {}", escape(line))).collect();
        self.terminal.lines(&hints)
    }
}
