//! What tools ask in the middle of their calls.

use super::*;
use cairn_engine::event::{InputRequested, ToolQuestion};
use cairn_engine::pending::{Asked, pending};

fn question(world: &World) -> Unfinished {
    Unfinished::Asks(InputRequested {
        call: world.call(1, 0),
        question: ToolQuestion {
            text: "Overwrite?".to_owned(),
            choices: vec!["yes".to_owned()],
            requests: "requests".to_owned(),
            state: Some("state-1".to_owned()),
        },
    })
}

/// A world whose call waits for the answer to what its tool asks.
fn asking() -> World {
    let mut world = world();
    world.rules = Rules::new(vec![rule("edit", None, Answer::Allow)]).unwrap();
    world.reply(1, "", &[call("docs/a")]);
    let asks = question(&world);
    let events = world.unfinished(1, asks);
    assert_eq!(kinds(&events), ["InputRequested", "RunWaiting"]);
    world
}

#[test]
fn a_question_of_a_tool_waits_and_its_call_continues_with_the_answer() {
    let mut world = asking();
    assert_eq!(world.run().status, QUESTION);
    assert!(world.outstanding().is_empty(), "nobody keeps a slot for it");
    let asked = Asked::Question {
        name: world.call(1, 0),
        question: "tool 'edit' asks: Overwrite?".to_owned(),
        choices: vec!["yes".to_owned()],
    };
    assert_eq!(pending(&world.session)[0].asked, asked);
    world.decide(Input::TakenOver { holder_dead: true });
    assert_eq!(
        open(&world),
        ["question-1.1.1.0.0"],
        "it survives its processes"
    );
    let word = |text: &str| Settlement::Answer {
        text: text.to_owned(),
    };
    for wrong in [word("perhaps"), Settlement::Approve, always(&[])] {
        let refused = world.answer("question-1.1.1.0.0", wrong);
        assert_eq!(refusal(&refused), "BAD_SETTLEMENT");
    }
    world.answer("question-1.1.1.0.0", word("yes"));
    assert!(is_intended(&world));
    let input = world.session.call(world.call(1, 0)).unwrap().input.clone();
    let input = input.expect("the call continues with it");
    assert_eq!(input.state.as_deref(), Some("state-1"));
    assert_eq!(input.responses, "yes to requests");
    assert_eq!(world.folded(), world.session);
    // A second round is another question.
    let asks = question(&world);
    world.unfinished(1, asks);
    assert_eq!(open(&world), ["question-1.1.1.0.0-2"]);
    world.answer("question-1.1.1.0.0-2", deny("no"));
    let input = world.session.call(world.call(1, 0)).unwrap().input.clone();
    assert_eq!(input.unwrap().responses, "no to requests");
}

#[test]
fn a_fork_in_a_question_of_a_tool_continues_the_call_by_its_key() {
    let child = forked(&asking());
    let call = child.session.call(child.call(1, 0)).expect("it waits");
    assert_eq!(call.origin.as_deref(), Some("parent"));
}

#[test]
fn a_call_that_was_continued_with_an_answer_is_in_doubt_as_any_other() {
    let mut world = asking();
    let yes = Settlement::Answer {
        text: "yes".to_owned(),
    };
    world.answer("question-1.1.1.0.0", yes);
    world.decide(Input::TakenOver { holder_dead: false });
    assert_eq!(world.in_doubt(), 1);
    world.now += 60_000;
    world.answer("call-1.1.1.0.0", Settlement::Retry);
    assert!(is_intended(&world));
    let call = world.session.call(world.call(1, 0)).unwrap();
    assert!(call.input.is_some(), "it is sent again with the answer");
}

/// The other call was sent, and is still under way: without its executor it would be sent again.
#[test]
fn a_call_under_way_ends_while_a_person_is_asked_about_another() {
    let mut world = world();
    world.rules = Rules::new(vec![rule("edit", None, Answer::Allow)]).unwrap();
    world.reply(1, "", &[call("docs/a"), call("docs/b")]);
    let asks = question(&world);
    world.unfinished(1, asks);
    assert_eq!(world.run().status, QUESTION);
    let work = Work::RunStep(world.attempt(1));
    assert_eq!(world.outstanding(), [work]);
    world.result(1, 1, "edited");
    assert!(world.outstanding().is_empty(), "nobody keeps a slot for it");
}
