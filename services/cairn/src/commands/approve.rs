//! `cairn approve`: allows what a session waits to be allowed.

use super::confirm::{is_at_terminal, is_wanted};
use super::decide::answer;
use super::hint;
use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::approvals::{Wanted, covers, gist as call_gist};
use crate::ui::live::terminal_width;
use crate::ui::out;
use crate::ui::questions::{Extent, asked_lines, change_lines, is_changed};
use crate::ui::scopes::further;
use crate::ui::style::Style;
use crate::ui::text::{command, quoted};
use cairn_proto::event::settlement::{Approve, ApproveAlways, Outcome};
use cairn_proto::event::{Condition, WaitReason};
use cairn_proto::orchestrator::{ListPendingRequest, Pending};
use cairn_rpc::text::{clip, escape};
use clap::builder::NonEmptyStringValueParser;
use serde_json::json;
use std::process::ExitCode;

/// What can be said to `cairn approve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Allows calls that wait for approval, the plan if one is to be looked at, and what a hook requires an
approval of: those that are named, or the only one that there is, after a look at it in a terminal.
Without a terminal, it wants the questions and --yes. What is not to be done is denied with cairn decide.

With --scope, further calls in this session need no approval if they are in the scope: the id of one that
cairn pending shows, such as tool, folder:src or 'prefix:cargo test'. With --always, further calls of the
same tool need none if they have the same values, such as the same path and host, or those of --when.
Calls with further arguments need one. Neither answers a rule that denies. End it with cairn tools revoke.

With --json one object for each: session, id.

Examples:
  cairn approve
  cairn approve s-7f3k
  cairn approve s-7f3k approval-1.2.1.0.0 approval-1.2.1.0.1 --yes
  cairn approve s-7f3k --all
  cairn approve --scope folder:src
  cairn approve --scope 'prefix:cargo test'
  cairn approve --always --when 'path=docs/**'")]
pub struct Args {
    /// The session: its id or a unique beginning of it [default: the latest]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// The questions, as cairn pending names them [default: the only one]
    #[arg(value_name = "PENDING_ID", conflicts_with = "all")]
    pending: Vec<String>,
    /// All that wait for approval now, after a look at them
    #[arg(long)]
    all: bool,
    /// Approve without a question; without a terminal, name the questions too
    #[arg(long)]
    yes: bool,
    /// Approve further calls of this scope in this session, too: its id, as cairn pending names it
    #[arg(long, value_name = "ID", conflicts_with = "always", value_parser = NonEmptyStringValueParser::new())]
    scope: Option<String>,
    /// Approve further calls like these in this session, too
    #[arg(long)]
    always: bool,
    /// Further calls that have this value: a name and a pattern; may be repeated
    #[arg(long, value_name = "NAME=PATTERN", requires = "always", value_parser = condition)]
    when: Vec<Condition>,
}

/// Reads `path=docs/**`.
pub(super) fn condition(text: &str) -> Result<Condition, String> {
    match text.split_once('=') {
        Some((name, pattern)) if !name.is_empty() && !pattern.is_empty() => Ok(Condition {
            name: name.trim().to_owned(),
            pattern: pattern.trim().to_owned(),
        }),
        _ => Err("a name of a value and a pattern, such as path=docs/**".to_owned()),
    }
}

/// The approval of one call, or of that and further ones: those of a scope, or those like it.
pub(super) fn approval(always: bool, when: Vec<Condition>, scope: Option<String>) -> Outcome {
    match (always, scope) {
        (_, Some(scope)) => Outcome::ApproveAlways(ApproveAlways {
            when: Vec::new(),
            scope,
        }),
        (true, None) => Outcome::ApproveAlways(ApproveAlways {
            when,
            scope: String::new(),
        }),
        (false, None) => Outcome::Approve(Approve {}),
    }
}

impl Args {
    /// What the approval is to cover besides the calls.
    fn wanted(&self) -> Wanted<'_> {
        match (&self.scope, self.always) {
            (Some(scope), _) => Wanted::Scope(scope),
            (None, true) => Wanted::Like(&self.when),
            (None, false) => Wanted::Open,
        }
    }

    fn is_further(&self) -> bool {
        self.always || self.scope.is_some()
    }
}

/// Approves one after the other, and says what.
///
/// # Errors
/// No such session; nothing waits for approval, or several do and none is named; without a terminal, no
/// question is named or `--yes` is missing.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let mut client = Client::attach_with(context, Access::Change, Servers::All).await?;
    let reported = approve(&mut client, args, context).await;
    client.finish().await;
    reported.map(|()| ExitCode::SUCCESS)
}

async fn approve(client: &mut Client<'_>, args: Args, context: &Context) -> Result<(), CliError> {
    let session = client.resolve(args.session.as_deref()).await?;
    let request = ListPendingRequest {
        session: session.clone(),
        ..ListPendingRequest::default()
    };
    let open = client.orchestrator().list_pending(request).await?;
    let mut open = open.into_inner().pending;
    open.retain(|pending| is_for_approval(pending) && !pending.answered);
    if args.pending.is_empty() && open.is_empty() {
        let message = format!("nothing waits for approval in session {session}");
        return Err(CliError::usage(message).hint("see what waits with: cairn pending"));
    }
    check_terminal(&args, &session, &open, context)?;
    // Between the look at the list and this, it may have become another question.
    let named = named(&args, &open)?;
    let is_shown = args.pending.is_empty() || args.is_further();
    let chosen = open.iter().filter(|pending| named.contains(&pending.id));
    let chosen: Vec<&Pending> = chosen.collect();
    check_scope(&args, &chosen, context)?;
    if is_shown && !args.yes && !is_approved(&args, &chosen, context).await? {
        return out::line("nothing was approved");
    }
    for id in &named {
        let outcome = approval(args.always, args.when.clone(), args.scope.clone());
        answer(client, &session, id, outcome).await?;
        if context.json {
            out::json(&json!({"session": session, "id": id}))?;
            continue;
        }
        let what = open.iter().find(|pending| pending.id == *id);
        let gist = what.map(gist).unwrap_or_default();
        out::line(&format!("approved {}{gist}", escape(id)))?;
        if let (true, Some(pending)) = (args.is_further(), what) {
            let covered = escape(&covers(pending, args.wanted())).into_owned();
            out::line(&format!("  for further calls: {covered}"))?;
            let list = command(context, &format!("tools approvals {session}"));
            out::line(&format!("  see: {list}"))?;
        }
    }
    if context.json {
        return Ok(());
    }
    out::line(&hint::go_on(client, &session).await)
}

/// Refuses a scope that one of the calls does not have, and names those that it has.
fn check_scope(args: &Args, chosen: &[&Pending], context: &Context) -> Result<(), CliError> {
    let Some(scope) = &args.scope else {
        return Ok(());
    };
    let has = |pending: &&&Pending| pending.scopes.iter().any(|it| it.id == *scope);
    let Some(other) = chosen.iter().find(|pending| !has(pending)) else {
        return Ok(());
    };
    let message = format!("{} has no scope {}", other.id, quoted(scope));
    let ids = other.scopes.iter().map(|it| quoted(&it.id));
    let ids: Vec<String> = ids.collect();
    let look = command(context, &format!("pending {}", other.session));
    let hint = match ids.is_empty() {
        // They are known to the process that runs the tools.
        true => format!("its scopes are not known now; see it with: {look}"),
        false => format!("it has {}; see them with: {look}", ids.join(", ")),
    };
    Err(CliError::usage(escape(&message)).hint(hint))
}

/// Nobody looks at what is not printed on a terminal, so it is named.
fn check_terminal(
    args: &Args,
    session: &str,
    open: &[Pending],
    context: &Context,
) -> Result<(), CliError> {
    if is_at_terminal(context) || (args.yes && !args.pending.is_empty()) {
        return Ok(());
    }
    let ids: Vec<&str> = match args.pending.is_empty() {
        true => open.iter().map(|pending| pending.id.as_str()).collect(),
        false => args.pending.iter().map(String::as_str).collect(),
    };
    let approve = command(
        context,
        &format!("approve {session} {} --yes", ids.join(" ")),
    );
    let message = "approving needs a terminal, or the questions and --yes";
    Err(CliError::usage(message).hint(format!(
        "look at them with cairn pending, then approve them with: {approve}"
    )))
}

/// The questions that are meant.
fn named(args: &Args, open: &[Pending]) -> Result<Vec<String>, CliError> {
    if !args.pending.is_empty() {
        return Ok(args.pending.clone());
    }
    let ids: Vec<String> = open.iter().map(|pending| pending.id.clone()).collect();
    if ids.len() > 1 && !args.all {
        let message = format!("{} calls wait for approval", open.len());
        let hint = format!("name them, or use --all: {}", escape(&ids.join(", ")));
        return Err(CliError::usage(message).hint(hint));
    }
    Ok(ids)
}

/// Shows what would be granted, and asks.
async fn is_approved(
    args: &Args,
    chosen: &[&Pending],
    context: &Context,
) -> Result<bool, CliError> {
    let style = Style::new(context.color);
    let columns = terminal_width().unwrap_or(usize::MAX);
    for pending in chosen {
        let mut lines = asked_lines(style, pending, args.wanted());
        lines.extend(change_lines(style, pending, Extent::First, columns, || {
            let see = format!("pending {} --whole", pending.session);
            format!("see them with: {}", command(context, &see))
        }));
        if matches!(args.wanted(), Wanted::Open) {
            lines.extend(scope_lines(pending));
        }
        out::line(&lines.join("\n"))?;
    }
    let question = match (args.is_further(), chosen.len()) {
        (true, _) if args.scope.is_some() => {
            "approve this and those further calls in this session?"
        }
        (true, _) => "approve this and further calls like it in this session?",
        (false, ..=1) => "approve?",
        (false, _) => "approve all of them?",
    };
    is_wanted(context, question).await
}

/// The flags that approve further calls, too.
fn scope_lines(pending: &Pending) -> Vec<String> {
    let further = further(pending).into_iter();
    let begins = std::iter::once("further").chain(std::iter::repeat(""));
    let lines = begins.zip(further).map(|(name, it)| {
        let flag = format!("--scope {}", quoted(&it.id));
        format!("  {name:<10}{flag} also approves {}", it.covers)
    });
    lines.collect()
}

fn is_for_approval(pending: &Pending) -> bool {
    let reason = pending.reason();
    match reason {
        WaitReason::Approval | WaitReason::PlanReview => true,
        // Which hooks a run asks from now on is more than an approval of what it does.
        WaitReason::Hook => !is_changed(pending),
        _ => false,
    }
}

/// What was approved, in a few words.
fn gist(pending: &Pending) -> String {
    match &pending.plan {
        Some(plan) => format!("  the plan of {} steps", plan.steps.len()),
        None if pending.reason() == WaitReason::Hook => match pending.step {
            0 => format!("  run {}", pending.run),
            step => format!("  step {step}"),
        },
        None => format!("  {}", clip(&call_gist(pending), 200)),
    }
}
