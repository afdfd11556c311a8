//! The catalogue on the wire.

use crate::invoke::GRACE;
use crate::permission::Permissions;
use crate::registry::{Entry, Snapshot, SourceReport};
use crate::source::SourceState;
use crate::tool::Effect;
use cairn_engine::rules::{Answer, Condition, Matcher, MatcherKind, Rule};
use cairn_proto::event;
use cairn_proto::tools as proto;
use std::time::Duration;

pub(super) fn answer(tools: &Snapshot, permissions: &Permissions) -> proto::ListToolsResponse {
    let callable = tools.iter();
    let callable = callable.filter(|entry| permissions.allows(&entry.spec().name));
    proto::ListToolsResponse {
        tools: callable.map(spec).collect(),
        digest: tools.digest.clone(),
        sources: tools.sources.iter().map(source).collect(),
        rules: permissions.rules().iter().map(rule).collect(),
        ..proto::ListToolsResponse::default()
    }
}

fn spec(entry: &Entry) -> proto::ToolSpec {
    let spec = entry.spec();
    let effect = match spec.effect {
        Effect::Pure => event::Effect::Pure,
        Effect::Idempotent => event::Effect::Idempotent,
        Effect::Effectful => event::Effect::Effectful,
    };
    let schema = spec.output_schema.as_ref();
    proto::ToolSpec {
        name: spec.name.clone(),
        description: spec.description.clone(),
        parameters_json: spec.parameters.to_string(),
        effect: effect.into(),
        // A call that is stopped may still hand over an answer that it has.
        time_limit_ms: millis(spec.time_limit + GRACE),
        in_process: spec.in_process,
        title: spec.title.clone(),
        output_schema_json: schema.map(ToString::to_string).unwrap_or_default(),
        source: spec.source.clone(),
        digest: entry.digest.clone(),
        default_answer: wire(spec.default).into(),
        matchers: spec.matchers.iter().map(matcher).collect(),
        disabled: entry.disabled.clone().unwrap_or_default(),
        previews: spec.previews,
        is_confined: spec.is_confined,
        opens: spec.opens.clone(),
    }
}

fn matcher(matcher: &Matcher) -> proto::Matcher {
    let kind = match matcher.kind {
        MatcherKind::Text => proto::MatcherKind::Text,
        MatcherKind::Path => proto::MatcherKind::Path,
        MatcherKind::Host => proto::MatcherKind::Host,
        MatcherKind::Json => proto::MatcherKind::Json,
        MatcherKind::Prose => proto::MatcherKind::Prose,
        MatcherKind::Free => proto::MatcherKind::Free,
    };
    proto::Matcher {
        name: matcher.name.clone(),
        kind: kind.into(),
        argument: matcher.argument.clone(),
        default_value: matcher.default.clone(),
        folder: matcher.folder.clone().unwrap_or_default(),
    }
}

fn wire(answer: Answer) -> proto::RuleAnswer {
    match answer {
        Answer::Allow => proto::RuleAnswer::Allow,
        Answer::Ask => proto::RuleAnswer::Ask,
        Answer::Deny => proto::RuleAnswer::Deny,
    }
}

fn rule(rule: &Rule) -> proto::ToolRule {
    let when = rule.when.iter().map(|(name, pattern)| Condition {
        name: name.clone(),
        pattern: pattern.clone(),
    });
    proto::ToolRule {
        tool: rule.tool.clone(),
        when: when.map(Into::into).collect(),
        agent: rule.agent.clone().unwrap_or_default(),
        answer: wire(rule.answer).into(),
    }
}

fn source(report: &SourceReport) -> proto::ToolSource {
    let (state, problem) = match &report.state {
        SourceState::Ready => (proto::ToolSourceState::Ready, ""),
        SourceState::Starting => (proto::ToolSourceState::Starting, ""),
        SourceState::NotAllowed(why) => (proto::ToolSourceState::NotAllowed, why.as_str()),
        SourceState::Unreachable(why) => (proto::ToolSourceState::Unreachable, why.as_str()),
    };
    proto::ToolSource {
        name: report.name.clone(),
        state: state.into(),
        problem: problem.to_owned(),
        place: report.place.clone(),
        digest: report.digest.clone(),
        left_out: report.left_out.clone(),
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
