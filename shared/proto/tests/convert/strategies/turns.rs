//! Turns, contexts, and the commands about them.

use super::messages::{context_op, message};
use super::{agents, at_limit, calls, failure, number, seq, step_no, text};
use cairn_engine::command::{
    BridgeContext, CancelTurn, ChangeContext, Command, CompactContext, ContextCreated,
    ContextDestroyed, ContextSwitched, CreateContext, DestroyContext, Keep, QueuedTurnDropped,
    ResponseFormat, SendMessage, SubmitTurn, SwitchContext, TurnOptions, TurnQueued, WhenBusy,
    WhenFull,
};
use cairn_engine::event::{EventKind, StartedTurn};
use cairn_engine::session::StepNo;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

pub(super) fn started() -> impl Strategy<Value = StartedTurn> {
    (text(), seq(), number()).prop_map(|(context, queued, turn_index)| StartedTurn {
        context,
        queued,
        turn_index,
    })
}

pub(super) fn when_full() -> impl Strategy<Value = Option<WhenFull>> {
    option::of(prop_oneof![Just(WhenFull::Compact), Just(WhenFull::Refuse)])
}

fn options() -> impl Strategy<Value = TurnOptions> {
    let format = prop_oneof![
        Just(ResponseFormat::Text),
        Just(ResponseFormat::JsonObject),
        (text(), text()).prop_map(|(name, schema)| ResponseFormat::JsonSchema { name, schema }),
    ];
    let tools = option::of(vec(text(), 0..3));
    let numbers = (
        option::of(0..=2000_u32),
        option::of(number()),
        option::of(number()),
    );
    let keep = option::of(prop_oneof![Just(Keep::Nothing), Just(Keep::Complete)]);
    let ends = (
        when_full(),
        keep,
        option::of(at_limit()),
        option::of(number()),
    );
    (numbers, format, tools, ends).prop_map(|(numbers, format, tools, ends)| {
        let (temperature_milli, max_output_tokens, max_tool_turns) = numbers;
        let (when_full, keep, at_limit, max_turns) = ends;
        TurnOptions {
            temperature_milli,
            max_output_tokens,
            format,
            tools,
            max_tool_turns,
            when_full,
            keep,
            at_limit,
            max_turns,
        }
    })
}

fn submitted() -> impl Strategy<Value = SubmitTurn> {
    let when_busy = prop_oneof![
        Just(WhenBusy::Refuse),
        Just(WhenBusy::Queue),
        Just(WhenBusy::Interrupt),
    ];
    let texts = (text(), text(), text());
    let how = (options(), when_busy, any::<bool>());
    (texts, option::of(message()), how).prop_map(
        |((context, model, trace_parent), message, how)| SubmitTurn {
            context,
            message,
            model,
            options: how.0,
            when_busy: how.1,
            trace_parent,
            answers_questions: how.2,
        },
    )
}

/// Pairs by key, as the wire orders them.
fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    btree_map(text(), text(), 0..3).prop_map(|pairs| pairs.into_iter().collect())
}

fn compact() -> impl Strategy<Value = CompactContext> {
    let asked = (option::of(text()), text(), text(), text());
    (text(), option::of(seq()), number(), asked).prop_map(
        |(context, expected_version, keep, (prompt, keep_in_mind, model, trace_parent))| {
            CompactContext {
                context,
                expected_version,
                keep,
                prompt,
                keep_in_mind,
                model,
                trace_parent,
            }
        },
    )
}

pub(super) fn command() -> impl Strategy<Value = Command> {
    let step = option::of(step_no().prop_filter("0 stands for none", |it| *it != StepNo::new(0)));
    let settings = (option::of(number()), when_full());
    let created = ((text(), text()), text(), vec(message(), 0..3), settings);
    let changed = (text(), option::of(seq()), vec(context_op(), 0..3));
    prop_oneof![
        submitted().prop_map(Command::from),
        (seq(), text()).prop_map(|(number, reason)| CancelTurn { number, reason }.into()),
        (step, message()).prop_map(|(step, message)| SendMessage { step, message }.into()),
        created.prop_map(|((name, agent), prompt, immutable, (window, when_full))| {
            CreateContext {
                name,
                prompt,
                immutable,
                window,
                when_full,
                agent,
            }
            .into()
        }),
        compact().prop_map(Command::from),
        text().prop_map(|context| SwitchContext { context }.into()),
        prop_oneof![agents::command(), calls::set_mode()],
        (text(), pairs(), any::<bool>()).prop_map(|(context, conclusions, ask_model)| {
            DestroyContext {
                context,
                conclusions,
                ask_model,
            }
            .into()
        }),
        (text(), text(), pairs())
            .prop_map(|(from, to, values)| BridgeContext { from, to, values }.into()),
        changed.prop_map(|(context, expected_version, ops)| {
            ChangeContext {
                context,
                expected_version,
                ops,
            }
            .into()
        }),
    ]
}

/// The events that stand beside their commands.
pub(super) fn kinds() -> Vec<(&'static str, BoxedStrategy<EventKind>)> {
    let dropped = (seq(), text(), option::of(failure())).prop_map(|(number, reason, failure)| {
        QueuedTurnDropped {
            number,
            reason,
            failure,
        }
    });
    vec![
        (
            "context_created",
            (text(), option::of(agents::used()))
                .prop_map(|(context, agent)| ContextCreated { context, agent }.into())
                .boxed(),
        ),
        (
            "context_switched",
            text()
                .prop_map(|context| ContextSwitched { context }.into())
                .boxed(),
        ),
        (
            "context_destroyed",
            text()
                .prop_map(|context| ContextDestroyed { context }.into())
                .boxed(),
        ),
        (
            "turn_queued",
            seq()
                .prop_map(|number| TurnQueued { number }.into())
                .boxed(),
        ),
        (
            "queued_turn_dropped",
            dropped.prop_map(EventKind::from).boxed(),
        ),
    ]
}
