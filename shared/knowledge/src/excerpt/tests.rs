use super::excerpt;

const PAGE: &str = "\
Opening hours
The office opens at eight.
The kitchen is on the second floor.

Parking
Guests park behind the building. A spot is booked at the desk.
Bicycles stand in the yard.

Fire
The siren is tested on Mondays.
";

#[test]
fn a_text_that_fits_is_whole() {
    assert_eq!(excerpt(PAGE, "parking", PAGE.len()), PAGE);
    assert_eq!(excerpt("", "parking", 0), "");
}

#[test]
fn the_lines_around_the_best_stay() {
    let found = excerpt(PAGE, "where do guests park", 110);
    assert!(found.starts_with('…') && found.ends_with('…'), "{found}");
    let lines = "Parking\nGuests park behind the building. A spot is booked at the desk.\n";
    assert!(found.contains(lines), "{found}");
}

#[test]
fn two_places_are_joined_by_a_gap() {
    let found = excerpt(PAGE, "kitchen siren", 110);
    assert!(
        found.contains("The kitchen is on the second floor.\n"),
        "{found}"
    );
    assert!(
        found.contains("…\nThe siren is tested on Mondays.\n"),
        "{found}"
    );
}

#[test]
fn without_a_fit_it_is_the_beginning() {
    assert_eq!(excerpt(PAGE, "submarine", 16), "Opening hours…");
    assert_eq!(excerpt(PAGE, "the", 16), "Opening hours…");
    assert_eq!(excerpt(PAGE, "parking", 2), "");
}

#[test]
fn long_lines_are_cut_at_sentences() {
    let text = "这是第一句。".repeat(50) + "停车位要提前预订。" + &"这是最后一句。".repeat(50);
    let found = excerpt(&text, "停车", 200);
    assert!(found.contains("。停车位要提前预订。"), "{found}");
    assert!(
        found.starts_with('…') && found.ends_with('…') && found.len() <= 200,
        "{found}"
    );
}
