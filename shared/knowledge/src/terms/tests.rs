use super::{distinct, fold, has_terms, weight};

#[test]
fn words_are_without_case_form_and_endings() {
    assert_eq!(distinct("Invoices INVOICE invoicing"), ["invoic"]);
    assert_eq!(distinct("ＡＰＩ ﬁle"), ["api", "file"]);
    assert_eq!(distinct("Straße Ελλάδα"), ["straße", "ελλάδα"]);
    assert_eq!(distinct("cafe\u{301} café"), ["café"]);
}

#[test]
fn identifiers_are_whole_and_in_parts() {
    assert_eq!(distinct("max_items"), ["max", "item", "maxitem"]);
    assert_eq!(distinct("maxItems"), ["max", "item", "maxitem"]);
    assert_eq!(distinct("HTTPServer"), ["http", "server", "httpserver"]);
    assert_eq!(
        distinct("post-mortem postmortem"),
        ["post", "mortem", "postmortem"]
    );
    assert_eq!(distinct("3.12"), ["3", "12", "3.12"]);
    assert_eq!(distinct("/v1/orders."), ["v1", "order", "v1orders"]);
    assert_eq!(distinct("a - b_ _c"), ["b", "c"]);
}

#[test]
fn contractions_and_possessives_leave_their_word() {
    assert_eq!(
        distinct("partner's partners\u{2019} don't we'll"),
        ["partner"]
    );
    assert_eq!(distinct("o'brien"), ["o", "brien"]);
}

#[test]
fn scripts_without_spaces_are_pairs_and_characters() {
    assert_eq!(distinct("数据库"), ["数", "数据", "据", "据库", "库"]);
    assert_eq!(distinct("数据的库"), ["数", "数据", "据", "库"]);
    assert_eq!(distinct("在线"), ["在线", "线"]);
    assert_eq!(distinct("用UTC毫秒"), ["utc", "毫", "毫秒", "秒"]);
    assert_eq!(distinct("서버"), ["서", "서버", "버"]);
}

#[test]
fn stop_words_are_no_terms() {
    for text in [
        "what is the",
        "为什么",
        "什么时候的",
        "了吗",
        "What's-this",
        "在",
        "",
        "—…!?\n\u{200b}",
    ] {
        assert_eq!(distinct(text), [""; 0], "{text}");
    }
}

#[test]
fn a_character_counts_less_than_a_pair() {
    assert!(weight("数") < weight("数据"));
    assert!((weight("a") - weight("word")).abs() < f64::EPSILON);
}

#[test]
fn long_words_are_cut_and_long_identifiers_have_only_parts() {
    assert_eq!(distinct(&"a".repeat(1000)), ["a".repeat(64)]);
    let path = "word.".repeat(100) + "end";
    assert_eq!(distinct(&path), ["word", "end"]);
}

#[test]
fn tags_are_compared_without_case_and_form() {
    assert_eq!(fold("ＡPI"), fold("api"));
    assert_ne!(fold("api"), fold("apis"));
}

#[test]
fn stop_words_and_signs_are_no_terms() {
    for text in ["", "of the", "的", "— !"] {
        assert!(!has_terms(text), "{text}");
    }
    assert!(has_terms("of the harbour") && has_terms("北"));
}
