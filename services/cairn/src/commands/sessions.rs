//! `cairn sessions`: sessions, filtered and ordered as asked.

use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::settings::run::millis;
use crate::ui::describe::{quarantine_reason, seen, session_status};
use crate::ui::event_json::wait_reason;
use crate::ui::live::terminal_width;
use crate::ui::out;
use crate::ui::table::{Column, Table};
use crate::ui::text::command;
use crate::ui::time::{age, utc};
use cairn_boot::config::duration;
use cairn_proto::event::WaitReason;
use cairn_proto::orchestrator::{
    ListSessionsRequest, PendingKind, SessionFilter, SessionOrder, SessionStatus, SessionSummary,
};
use cairn_rpc::{Clock as _, SystemClock};
use cairn_views::figures::dollars;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;

/// A terminal that is narrower shows fewer columns.
const WIDE: usize = 110;

/// What can be said to `cairn sessions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
With --json one session a line: id, status (idle, running, interrupted, waiting, quarantined), title,
agent, created, updated, last_seq, tokens, cost_nano_usd, pending (a list of reason, since and count),
quarantine_reason (claims, writes_lost; else null), newer_version (needs and level, if only a newer version can
read the session; else null). What nobody works on, such as after kill -9, is interrupted.

Examples:
  cairn sessions
  cairn sessions nightly                        id or title begins with \"nightly\"
  cairn sessions --pending                      sessions that ask a person something
  cairn sessions --pending=approval --since 1h
  cairn sessions --sort changed --limit 1       the session that changed last
  cairn sessions --json | jq -r 'select(.status == \"waiting\") | .id'")]
pub struct Args {
    /// Only sessions whose id or title begins with this
    #[arg(value_name = "PREFIX")]
    prefix: Option<String>,

    /// Only sessions with this status; may be repeated
    #[arg(long, value_name = "STATUS")]
    status: Vec<Status>,

    /// Only sessions with an open question, of this kind if one is named; may be repeated
    #[arg(long, value_name = "KIND", num_args = 0..=1, require_equals = true, default_missing_value = "any")]
    pending: Vec<Kind>,

    /// Only sessions of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,

    /// Only sessions that changed within this time, such as 2h or 7d
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Duration>,

    /// Only sessions without a change within this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    before: Option<Duration>,

    /// Order of the list: by creation or by last change
    #[arg(long, value_name = "ORDER", default_value = "created")]
    sort: Sort,

    /// Oldest first
    #[arg(long)]
    reverse: bool,

    /// Most sessions to show; 0 for all
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    limit: usize,
}

/// A status to filter by.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Status {
    /// No run is active
    Idle,
    /// A run is active, or was interrupted
    Running,
    /// A run waits for a person
    Waiting,
    /// A run is paused
    Paused,
    /// No process works on it before it is released
    Quarantined,
}

/// A kind of question to filter by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum Kind {
    /// Whatever it is about
    Any,
    /// A call whose outcome is not known
    InDoubt,
    /// A budget that is used up
    Budget,
    /// A call that needs approval
    Approval,
    /// A question of the model
    Question,
    /// A plan to be looked at
    PlanReview,
    /// A request that does not fit into the window of its model
    Context,
    /// A capability that no resource of the pool has; see cairn pool
    Capability,
    /// A hook that requires an approval, or that is missing or changed; see cairn hook
    Hook,
}

/// By what the list is ordered.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Sort {
    /// By creation
    Created,
    /// By last change
    Changed,
}

fn time(text: &str) -> Result<Duration, String> {
    let allowed = "a whole number with a unit, such as 30s, 2h or 7d";
    duration::parse(text).ok_or_else(|| allowed.to_owned())
}

impl Args {
    fn request(&self, now: i64) -> ListSessionsRequest {
        let statuses = self.status.iter().map(|status| match status {
            Status::Idle => SessionStatus::Idle,
            Status::Running => SessionStatus::Running,
            Status::Waiting => SessionStatus::Waiting,
            Status::Paused => SessionStatus::Paused,
            Status::Quarantined => SessionStatus::Quarantined,
        });
        let pending = self.pending.iter().filter_map(|kind| match kind {
            Kind::Any => None,
            Kind::InDoubt => Some(WaitReason::InDoubt),
            Kind::Budget => Some(WaitReason::Budget),
            Kind::Approval => Some(WaitReason::Approval),
            Kind::Question => Some(WaitReason::Question),
            Kind::PlanReview => Some(WaitReason::PlanReview),
            Kind::Context => Some(WaitReason::Context),
            Kind::Capability => Some(WaitReason::Capability),
            Kind::Hook => Some(WaitReason::Hook),
        });
        let is_any = self.pending.contains(&Kind::Any);
        let pending = pending.filter(|_| !is_any);
        let ago = |time: Option<Duration>| {
            let time = time.map(|time| i64::try_from(millis(time)).unwrap_or(i64::MAX));
            time.map_or(0, |time| now.saturating_sub(time).max(1))
        };
        let order = match self.sort {
            Sort::Created => SessionOrder::Created,
            Sort::Changed => SessionOrder::Changed,
        };
        ListSessionsRequest {
            filter: Some(SessionFilter {
                statuses: statuses.map(Into::into).collect(),
                pending: pending.map(Into::into).collect(),
                has_pending: !self.pending.is_empty(),
                agent: self.agent.clone().unwrap_or_default(),
                prefix: self.prefix.clone().unwrap_or_default(),
                changed_after_unix_ms: ago(self.since),
                changed_before_unix_ms: ago(self.before),
            }),
            order: order.into(),
            ascending: self.reverse,
            ..ListSessionsRequest::default()
        }
    }

    fn is_filtered(&self) -> bool {
        let by_time = self.since.is_some() || self.before.is_some();
        let by_text = self.prefix.is_some() || self.agent.is_some();
        by_time || by_text || !self.status.is_empty() || !self.pending.is_empty()
    }
}

/// Lists the sessions.
///
/// # Errors
/// There is no store, or it cannot be read.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let client = Client::attach(context, Access::Read).await?;
    let now = i64::try_from(SystemClock.unix_ms()).unwrap_or(i64::MAX);
    let limit = match args.limit {
        0 => usize::MAX,
        limit => limit,
    };
    let most = limit.saturating_add(1);
    let mut sessions = client.list(args.request(now), most).await?;
    let has_more = sessions.len() > limit;
    sessions.truncate(limit);
    let is_held = !client.attached().is_reader();
    if context.json {
        for session in &sessions {
            out::json(&session_json(session, is_held))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if sessions.is_empty() {
        out::line(match args.is_filtered() {
            true => "no session passes the filter",
            false => "there is no session yet; begin with: cairn run \"<goal>\"",
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = terminal_width();
    for line in table(&sessions, is_held, now, width).lines(width) {
        out::line(&line)?;
    }
    if has_more {
        let all = command(context, "sessions --limit 0");
        out::line(&match args.is_filtered() {
            true => "… and more: add --limit 0".to_owned(),
            false => format!("… and more: {all}"),
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

fn session_json(session: &SessionSummary, is_held: bool) -> Value {
    let pending = session.pending.iter().map(|open| {
        json!({
            "reason": wait_reason(open.reason),
            "since": utc(open.since_unix_ms),
            "count": open.count,
        })
    });
    json!({
        "id": session.id,
        "status": seen(session_status(session.status), is_held),
        "title": session.title,
        "agent": session.agent,
        "created": utc(session.created_unix_ms),
        "updated": utc(session.updated_unix_ms),
        "last_seq": session.last_seq,
        "tokens": session.tokens,
        "cost_nano_usd": session.cost_nano_usd,
        "pending": pending.collect::<Vec<_>>(),
        "quarantine_reason": quarantine_reason(session.quarantine_reason),
        "newer_version": session.newer_version.map(|it| json!({"needs": it.needs, "level": it.level})),
    })
}

/// None if it is not known, or nothing was used.
fn cost(session: &SessionSummary) -> String {
    match session.cost_nano_usd {
        0 => String::new(),
        cost => format!("${}", dollars(cost)),
    }
}

/// Columns that would be empty are left out; on a narrow terminal also some that people need least.
fn table(sessions: &[SessionSummary], is_held: bool, now: i64, width: Option<usize>) -> Table {
    let any = |has: fn(&SessionSummary) -> bool| sessions.iter().any(has);
    let is_wide = width.is_none_or(|width| width >= WIDE);
    let (has_agent, has_cost, asks) = (
        any(|session| !session.agent.is_empty()),
        any(|session| session.cost_nano_usd > 0),
        any(|session| !session.pending.is_empty() || session.newer_version.is_some()),
    );
    let has_tokens = is_wide && any(|session| session.tokens > 0);
    let has_events = is_wide || !(asks || has_cost);
    let columns = [
        (true, Column::Left("SESSION")),
        (true, Column::Left("STATUS")),
        (has_agent, Column::Left("AGENT")),
        (has_events, Column::Right("EVENTS")),
        (has_tokens, Column::Right("TOKENS")),
        (has_cost, Column::Right("COST")),
        (true, Column::Left("CHANGED")),
        (asks, Column::Left("ASKS")),
        (true, Column::Left("TITLE")),
    ];
    let shown = columns.map(|(is_shown, _)| is_shown);
    let columns = columns.into_iter().filter(|(is_shown, _)| *is_shown);
    let mut table = Table::new(columns.map(|(_, column)| column).collect::<Vec<_>>());
    for session in sessions {
        let cells = [
            session.id.clone(),
            seen(session_status(session.status), is_held),
            session.agent.clone(),
            session.last_seq.to_string(),
            session.tokens.to_string(),
            cost(session),
            age(session.updated_unix_ms, now),
            awaited(session, now),
            session.title.clone(),
        ];
        let cells = cells
            .into_iter()
            .zip(shown)
            .filter(|(_, is_shown)| *is_shown);
        table.cells(cells.map(|(cell, _)| cell));
    }
    table
}

/// What a session waits for, or the level that a process needs to read it.
fn awaited(session: &SessionSummary, now: i64) -> String {
    match session.newer_version {
        Some(newer) => format!("newer version (level {})", newer.needs),
        None => asked(&session.pending, now),
    }
}

/// What a session asks and since when: `approval 5 min`, `approval, 2 questions 3 h`.
fn asked(pending: &[PendingKind], now: i64) -> String {
    let Some(since) = pending.iter().map(|open| open.since_unix_ms).min() else {
        return String::new();
    };
    let kinds = pending.iter().map(|open| {
        let kind = wait_reason(open.reason).replace('_', " ");
        match open.count {
            ..=1 => kind,
            count => format!("{kind} ×{count}"),
        }
    });
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    let age = age(since, now);
    format!("{kinds} {}", age.trim_end_matches(" ago"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::orchestrator::NewerVersion;

    const NOW: i64 = 1_800_000_000_000;

    fn session(id: &str, pending: &[(WaitReason, u32)], cost_nano_usd: u64) -> SessionSummary {
        let pending = pending.iter().map(|(reason, count)| PendingKind {
            reason: (*reason).into(),
            since_unix_ms: NOW - 300_000,
            count: *count,
        });
        SessionSummary {
            id: id.to_owned(),
            status: SessionStatus::Waiting.into(),
            title: "Which files under docs mention Redis, and what do they say about it?".into(),
            updated_unix_ms: NOW - 60_000,
            last_seq: 123,
            tokens: 45_678,
            cost_nano_usd,
            pending: pending.collect(),
            ..SessionSummary::default()
        }
    }

    #[test]
    fn columns_are_shown_where_they_have_something_to_say() {
        let quiet = [session("s-1", &[], 0)];
        let asking = [
            session("s-1", &[(WaitReason::Approval, 2)], 12_300_000),
            session("s-2", &[], 0),
        ];
        let lists =
            [(&quiet[..], 80), (&asking[..], 80), (&asking[..], 200)].map(|(sessions, width)| {
                let lines = table(sessions, true, NOW, Some(width)).lines(Some(width));
                format!("--- {width} columns\n{}\n", lines.join("\n"))
            });
        insta::assert_snapshot!("session_tables", lists.concat());
    }

    #[test]
    fn a_session_of_a_newer_version_is_shown_with_the_level_that_it_needs() {
        let newer_version = Some(NewerVersion { needs: 3, level: 2 });
        let asking = session("s", &[(WaitReason::Approval, 1)], 0);
        let session = SessionSummary {
            newer_version,
            ..asking
        };
        assert_eq!(awaited(&session, NOW), "newer version (level 3)");
        let levels = json!({"needs": 3, "level": 2});
        assert_eq!(session_json(&session, true)["newer_version"], levels);
    }

    #[test]
    fn several_kinds_of_questions_are_named() {
        let full = session("s", &[(WaitReason::Context, 1)], 0);
        assert_eq!(asked(&full.pending, NOW), "context 5 min");
        let several = [(WaitReason::InDoubt, 1), (WaitReason::Question, 3)];
        let several = session("s", &several, 0);
        assert_eq!(asked(&several.pending, NOW), "in doubt, question ×3 5 min");
        assert_eq!(asked(&[], NOW), "");
    }
}
