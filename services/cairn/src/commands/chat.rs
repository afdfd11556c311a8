//! `cairn chat`: a conversation.

mod agent;
mod continuation;
mod editor;
mod free;
mod keys;
mod line;
mod local;
mod mode;
mod piped;
mod printer;
mod retry;
mod slash;
mod start;
mod submit;
mod talk;
mod terminal;
mod view;

use crate::attach::Access;
use crate::client::Client;
use crate::commands::agent::workspace::report_unconfirmed;
use crate::commands::mode::ModeName;
use crate::context::Context;
use crate::error::CliError;
use crate::settings::CommandLimits;
use crate::ui::flow::gist;
use crate::ui::text::command;
use crate::workspace::command_in_folder;
use cairn_proto::event::part::Part;
use cairn_proto::event::{AtLimit, Keep, Message, Mode, Role, SubmitTurn, TurnOptions};
use cairn_proto::orchestrator::{
    CancelRunRequest, CreateSessionRequest, ListPendingRequest, Pending, SendMessageRequest,
    SubmitTurnRequest,
};
use clap::builder::NonEmptyStringValueParser;
use std::io::{IsTerminal as _, stdin};
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::ctrl_c;
use tokio::time::sleep;

/// The arguments of `cairn chat`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without a session, your first message begins a new one. Leave with Ctrl-D and come back with the id that
is shown first. While a turn runs, a line that you enter is read by the model before the turn ends. Ctrl-C
interrupts the turn, and what it has done stays in the conversation; Ctrl-C twice leaves. /help lists the commands
of a conversation.

If standard input is not a terminal, each line is a turn, and standard output has the replies alone. A
program that reads them gets them as the model wrote them. The reply to a turn of another client, which works
when the conversation begins, goes to standard error.
With --json it has each cairn.orchestrator.v1.SubmitTurnResponse as a line of protobuf JSON.

While another context of the session works, or a run with a plan, the conversation waits for its end.

Exit codes: 0 done, also after Ctrl-C twice or Ctrl-D; 1 a turn failed; 3 a turn waits for a person, or
the run is paused; 130 interrupted while lines come from a pipe, or by a signal.

Examples:
  cairn chat
  cairn chat s-7f3k --context draft
  cairn chat --model anthropic --in ~/project
  cairn chat --agent reviewer
  cairn chat --mode plan
  echo 'Which files mention Redis?' | cairn chat")]
pub struct Args {
    /// The session: its id or a unique beginning of it [default: a new one]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// The context to continue, which must be there [default: the active one of the session]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    context: Option<String>,
    /// The model, by its name in the settings of the process that does the work [default: as they say]
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// The agent of the context: the name of a stored one, workspace:NAME for that of a confirmed file, or default
    /// for none [default: the one that the context has]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    agent: Option<String>,
    /// What the model does without asking [default: as the session has it, ask if it is new]
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Option<ModeName>,
    /// How long the offline model waits before each reply, such as 400ms
    #[arg(long, value_name = "TIME")]
    pub(super) pace: Option<String>,
}

/// Holds the conversation.
///
/// # Errors
/// No such session or context, services that cannot be reached, an interruption.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let mut client = Client::attach(context, Access::Own).await?;
    let mut leaving = Leaving::default();
    let ended = Box::pin(converse(&mut client, args, &mut leaving)).await;
    match leaving {
        Leaving::Freely => client.finish().await,
        Leaving::Interrupted => tokio::select! {
            () = client.finish() => {}
            () = sleep(MOMENT) => {}
            _ = ctrl_c() => {}
        },
        // Its programs end with this process, and what is not written is taken up later.
        Leaving::AtOnce => {}
    }
    ended
}

/// How the person leaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Leaving {
    /// Running calls end first.
    #[default]
    Freely,
    /// They interrupted the last turn: no call is waited for more than a moment, and a further Ctrl-C is obeyed.
    Interrupted,
    /// Nothing is waited for.
    AtOnce,
}

/// How long a process that was interrupted waits for the calls of other sessions, and to close the store.
const MOMENT: Duration = Duration::from_secs(2);

async fn converse(
    client: &mut Client<'_>,
    args: Args,
    leaving: &mut Leaving,
) -> Result<ExitCode, CliError> {
    let is_interactive = client.context().live && stdin().is_terminal();
    report_unconfirmed(client).await;
    let mut chat = Box::pin(start::conversation(client, args)).await?;
    chat.answers_questions = is_interactive;
    let active = match chat.is_new {
        true => None,
        false => free::until_free(&mut chat).await?,
    };
    let mut notes = Box::pin(agent::begin(&mut chat, active.is_some())).await?;
    notes.extend(Box::pin(mode::begin(&mut chat)).await?);
    let ended = match is_interactive {
        true => talk::talk(&mut chat, active, &notes).await,
        false => piped::converse(&mut chat, active, &notes).await,
    };
    *leaving = chat.leaving;
    ended
}

/// A conversation: which session, which context, which model.
struct Chat<'c, 'a> {
    client: &'c mut Client<'a>,
    session: String,
    /// The session is not there before something is said.
    is_new: bool,
    /// Name of the context; empty for the active one.
    context: String,
    /// The active context, when it was last seen.
    active: String,
    /// The context of that name has been destroyed.
    is_gone: bool,
    /// Name of the model that the person named; empty for that of the agent, or else the default one.
    model: String,
    /// Name of the context's agent, when it was last seen; empty for the default one.
    agent: String,
    /// Name of the agent that the next turn begins with, if the context has another one.
    wanted: Option<String>,
    /// The session's mode, when it was last seen.
    mode: Mode,
    /// The mode that the session gets, if it has another one.
    wanted_mode: Option<Mode>,
    /// A person is at the terminal.
    answers_questions: bool,
    /// How the person leaves if they leave now.
    leaving: Leaving,
}

impl Chat<'_, '_> {
    /// Creates the session of a conversation that begins, and gives it the mode and its context the agent that the
    /// person named.
    async fn prepare(&mut self) -> Result<(), CliError> {
        if self.is_new {
            self.create_session().await?;
        }
        mode::set_wanted(self).await?;
        agent::switch_wanted(self).await
    }

    async fn create_session(&mut self) -> Result<(), CliError> {
        let request = CreateSessionRequest {
            session: self.session.clone(),
            // The same each time, also after an error, so that it is created once.
            request_id: self.session.clone(),
            ..CreateSessionRequest::default()
        };
        let created = self.client.persist(|mut orchestrator| {
            let request = request.clone();
            async move { orchestrator.create_session(request).await }
        });
        created.await?;
        self.client.work_on(&self.session)?;
        self.is_new = false;
        Ok(())
    }

    /// Continues in the context of that name from now on.
    fn continue_in(&mut self, context: &str) {
        context.clone_into(&mut self.context);
        self.is_gone = false;
    }

    /// The agent of the next turn; empty for the default one.
    fn next_agent(&self) -> &str {
        self.wanted.as_ref().unwrap_or(&self.agent)
    }

    /// The context in which the next turn is expected.
    fn expected(&self) -> &str {
        match self.context.as_str() {
            "" => &self.active,
            name => name,
        }
    }

    /// The request of a turn that says this.
    fn turn(&self, text: &str) -> SubmitTurnRequest {
        SubmitTurnRequest {
            session: self.session.clone(),
            request_id: new_id("turn"),
            turn: Some(SubmitTurn {
                context: self.context.clone(),
                message: Some(message(text)),
                model: self.model.clone(),
                options: Some(self.options()),
                answers_questions: self.answers_questions,
                ..SubmitTurn::default()
            }),
            after_seq: 0,
        }
    }

    /// How a turn is carried out: its work stays, however it ends, and at its limits the person is asked. An agent
    /// has limits of its own.
    fn options(&self) -> TurnOptions {
        let own = CommandLimits::of(&self.client.context().settings);
        let has_agent = !self.agent.is_empty() || self.wanted.is_some();
        let own = (!has_agent).then_some(own);
        TurnOptions {
            keep: Keep::Complete.into(),
            at_limit: AtLimit::Ask.into(),
            max_tool_turns: own.map(|own| own.max_tool_turns),
            max_turns: own.map(|own| own.max_turns),
            ..TurnOptions::default()
        }
    }

    /// Says something to the running turn.
    async fn steer(&mut self, text: &str) -> Result<(), CliError> {
        let request = SendMessageRequest {
            session: self.session.clone(),
            request_id: new_id("say"),
            step: 0,
            message: Some(message(text)),
        };
        let sent = self.client.persist(|mut orchestrator| {
            let request = request.clone();
            async move { orchestrator.send_message(request).await }
        });
        sent.await.map(drop)
    }

    /// Cancels a turn that has begun. One that has ended is none to cancel.
    async fn cancel(&mut self, run: u32) -> Result<(), CliError> {
        let request = self.cancelling(run);
        let cancelled = self.client.persist(|mut orchestrator| {
            let request = request.clone();
            async move { orchestrator.cancel_run(request).await }
        });
        match cancelled.await {
            Err(error) if error.reason != "RUN_ENDED" => Err(error),
            _ => Ok(()),
        }
    }

    fn cancelling(&self, run: u32) -> CancelRunRequest {
        CancelRunRequest {
            session: self.session.clone(),
            run,
            request_id: new_id("cancel"),
            ..CancelRunRequest::default()
        }
    }

    /// The open questions of a turn, without those that have an answer.
    async fn questions(&mut self, run: u32) -> Result<Vec<Pending>, CliError> {
        let request = ListPendingRequest {
            session: self.session.clone(),
            ..ListPendingRequest::default()
        };
        let open = self.client.persist(|mut orchestrator| {
            let request = request.clone();
            async move { orchestrator.list_pending(request).await }
        });
        let mut open = open.await?.pending;
        open.retain(|pending| pending.run == run && !pending.answered);
        Ok(open)
    }

    /// What to do about a turn that is refused because of another run, or because its context is gone.
    fn refused(&mut self, error: CliError) -> CliError {
        if error.reason == "CONTEXT_NOT_FOUND" {
            self.is_gone = true;
            let back = self.come_back();
            let hint =
                format!("enter /context main to continue there\nor begin again with: {back}");
            return error.hint(hint);
        }
        if error.reason != "RUN_ACTIVE" {
            return error;
        }
        let typed = |verb: &str| {
            let context = self.client.context();
            command(context, &format!("{verb} {}", self.session))
        };
        let (watch, cancel) = (typed("watch"), typed("cancel"));
        // The services offer a queue, which a conversation at a terminal has no use for.
        let (busy, _) = error
            .message
            .split_once(';')
            .unwrap_or((&error.message, ""));
        let message =
            format!("{busy}: your message was not sent; enter it again after the end of the run");
        let hint = format!("watch it: {watch}\nor end it: {cancel}");
        CliError {
            message,
            ..error.hint(hint)
        }
    }

    /// How to continue the conversation another time.
    fn come_back(&self) -> String {
        let rest = match self.context.as_str() {
            _ if self.is_gone => format!("chat {}", self.session),
            "" => format!("chat {}", self.session),
            name => format!("chat {} --context {name}", self.session),
        };
        // Services elsewhere have a folder of their own.
        match self.client.attached().is_remote() {
            true => command(self.client.context(), &rest),
            false => command_in_folder(self.client.context(), &self.session, &rest),
        }
    }
}

/// What is shown of a turn that was under way.
fn under_way(request: &SubmitTurnRequest) -> String {
    let text = gist(text_of(request), 60);
    format!("this turn was under way and continues: {text}")
}

/// What a turn says first.
fn text_of(request: &SubmitTurnRequest) -> &str {
    let turn = request.turn.as_ref();
    let message = turn.and_then(|turn| turn.message.as_ref());
    let parts = message.into_iter().flat_map(|message| &message.parts);
    let mut texts = parts.filter_map(|part| part.said());
    texts.next().unwrap_or_default()
}

fn message(text: &str) -> Message {
    Message {
        role: Role::User.into(),
        parts: vec![Part::Text(text.to_owned()).into()],
    }
}

fn new_id(what: &str) -> String {
    format!("{what}-{}", uuid::Uuid::now_v7().simple())
}
