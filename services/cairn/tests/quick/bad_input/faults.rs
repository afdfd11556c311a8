//! Every fault that can be put into a request, made from its descriptor.

use super::rules::{self, Rule, Text};
use prost::Message as _;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, Value};

/// Messages nest no deeper than this.
const DEEPEST: usize = 8;
/// May hold any text.
const ANY_TEXT: [&str; 2] = [
    "cairn.memory.v1.SetMemoryRequest.value",
    "cairn.event.v1.Part.text",
];
/// Required where there is no plan.
const GOAL: &str = "cairn.event.v1.StartRun.goal";
/// The name of nothing, unless a request before has made a session of this name.
const UNKNOWN: &str = "unknown";
/// More than any list may have.
const MANY: usize = 10_001;
/// More than a message may have.
const HUGE: usize = 5 << 20;

/// Encodes a valid request with a fault in it.
type Encode = Box<dyn Fn(&DynamicMessage) -> Vec<u8>>;

/// What will do as an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Must {
    /// Anything that is clear.
    Answer,
    /// Nothing but an error.
    Fail,
    /// Nothing but an error that names this field.
    Name(String),
}

impl Must {
    fn fail_if(condition: bool) -> Self {
        match condition {
            true => Self::Fail,
            false => Self::Answer,
        }
    }
}

/// A valid request with one fault.
pub(crate) struct Fault {
    /// Field and fault, for people.
    pub(crate) name: String,
    /// What will do.
    pub(crate) must: Must,
    /// Puts it in.
    pub(crate) bytes: Encode,
}

/// All faults of a request.
///
/// Only of what clients send (`is_public`) every field has a rule.
pub(crate) fn of(request: &MessageDescriptor, whole: &[u8], is_public: bool) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut places = Vec::new();
    walk(request, &[], &mut places);
    let valid = DynamicMessage::decode(request.clone(), whole).expect("a valid request");
    for place in &places {
        let (field, outer) = place.split_last().expect("a field");
        let mut rule = is_public.then(|| rules::of(field));
        if let Some(rule) = &mut rule
            && field.full_name() == GOAL
        {
            // Where there is no plan.
            let run = parent(&mut valid.clone(), outer).clone();
            rule.is_required = !run.has_field_by_name("plan");
        }
        let before = faults.len();
        of_field(place, rule, &mut faults);
        if is_in_made_up_element(&valid, outer) {
            // Of two faults of an element, the answer names one.
            for fault in &mut faults[before..] {
                if matches!(fault.must, Must::Name(_)) {
                    fault.must = Must::Fail;
                }
            }
        }
    }
    of_bytes(whole, &mut faults);
    faults
}

/// Fields from the request down to the one with the fault.
type Place = Vec<FieldDescriptor>;

fn walk(message: &MessageDescriptor, outer: &[FieldDescriptor], places: &mut Vec<Place>) {
    for field in message.fields() {
        let mut place = outer.to_vec();
        place.push(field.clone());
        places.push(place.clone());
        if let Kind::Message(inner) = field.kind()
            && !field.is_map()
            && place.len() < DEEPEST
        {
            walk(&inner, &place, places);
        }
    }
}

fn path(place: &[FieldDescriptor]) -> String {
    let names: Vec<_> = place.iter().map(|field| field.name().to_owned()).collect();
    names.join(".")
}

/// Whether the valid request lacks the list element that the last field of a place belongs to.
fn is_in_made_up_element(valid: &DynamicMessage, outer: &[FieldDescriptor]) -> bool {
    let mut message = valid.clone();
    outer.iter().any(|field| {
        let value = message.get_field(field).into_owned();
        match value {
            Value::Message(inner) => message = inner,
            Value::List(list) => match list.into_iter().next() {
                Some(Value::Message(inner)) => message = inner,
                _ => return true,
            },
            _ => {}
        }
        false
    })
}

/// The message that the last field of a place belongs to; of lists the first element.
fn parent<'m>(
    mut message: &'m mut DynamicMessage,
    outer: &[FieldDescriptor],
) -> &'m mut DynamicMessage {
    for field in outer {
        message = match message.get_field_mut(field) {
            Value::Message(inner) => inner,
            Value::List(list) => {
                if list.is_empty() {
                    list.push(element(field));
                }
                match list.first_mut() {
                    Some(Value::Message(inner)) => inner,
                    other => panic!("{} holds {other:?}", field.full_name()),
                }
            }
            other => panic!("{} holds {other:?}", field.full_name()),
        };
    }
    message
}

fn element(field: &FieldDescriptor) -> Value {
    match field.kind() {
        Kind::Message(message) => Value::Message(DynamicMessage::new(message)),
        kind => kind.default_value(),
    }
}

fn of_field(place: &Place, rule: Option<Rule>, faults: &mut Vec<Fault>) {
    let (field, _) = place.split_last().expect("a field");
    let mut add = |name: &str, must, change: Box<dyn Fn(&mut DynamicMessage)>| {
        let outer = place[..place.len() - 1].to_vec();
        faults.push(Fault {
            name: format!("{} {name}", path(place)),
            must,
            bytes: Box::new(move |valid| {
                let mut message = valid.clone();
                change(parent(&mut message, &outer));
                message.encode_to_vec()
            }),
        });
    };
    let own = field.clone();
    let must = match rule.is_some_and(|rule| rule.is_required) {
        true => Must::Name(path(place)),
        false => Must::Answer,
    };
    add("missing", must, Box::new(move |m| m.clear_field(&own)));
    // A key that is wrong fails with the map.
    if field.is_map() {
        return;
    }
    if field.is_list() {
        let own = field.clone();
        let must = Must::fail_if(field.name() == "steps");
        let many = move |message: &mut DynamicMessage| {
            let Value::List(list) = message.get_field_mut(&own) else {
                return;
            };
            let first = list.first().cloned().unwrap_or_else(|| element(&own));
            *list = vec![first; MANY];
        };
        add("10,001 times", must, Box::new(many));
    }
    let mut values = values(field);
    if rule.is_some_and(|rule| rule.text == Text::Session) {
        let value = Value::String("never-made".to_owned());
        values.push(("never made".to_owned(), true, value));
    }
    for (name, must_fail, value) in values {
        let own = field.clone();
        let demanded = rule.map(|rule| demanded(rule, &name, &value, &path(place)));
        let demanded = demanded.unwrap_or(Must::Answer);
        let must = match (must_fail, demanded) {
            (true, Must::Answer) => Must::Fail,
            (_, demanded) => demanded,
        };
        let value = if field.is_list() {
            Value::List(vec![value])
        } else {
            value
        };
        let set = move |m: &mut DynamicMessage| m.set_field(&own, value.clone());
        add(&name, must, Box::new(set));
    }
}

/// What the rule of a field demands of the answer to a wrong value.
fn demanded(rule: Rule, name: &str, value: &Value, path: &str) -> Must {
    let named = |wrong: bool| match wrong {
        true => Must::Name(path.to_owned()),
        false => Must::Answer,
    };
    let number = |n: u64| match path.rsplit('.').next() {
        // There is no such run: that is an answer of its own.
        Some("run") => Must::fail_if(n > rule.most),
        _ => named(n > rule.most),
    };
    match value {
        // Such a message is too large as a whole.
        Value::String(text) if text.len() >= HUGE => Must::Fail,
        // What a session remembers has a limit, and is none of the request's faults.
        Value::String(text) if text.len() > rule.longest && path == "value" => Must::Fail,
        Value::String(text) if text.len() > rule.longest => named(true),
        Value::String(text) if text.is_empty() => named(rule.is_required),
        Value::String(_) => match rule.text {
            Text::Any => Must::Answer,
            Text::Known => Must::Fail,
            Text::Session => Must::fail_if(name != UNKNOWN),
            Text::Json => named(!["a large number", "blank"].contains(&name)),
            Text::Form => named(true),
        },
        Value::U32(n) => number((*n).into()),
        Value::U64(n) => number(*n),
        Value::EnumNumber(_) => named(true),
        _ => Must::Answer,
    }
}

/// Wrong values of a field: name, whether it must be refused, value.
fn values(field: &FieldDescriptor) -> Vec<(String, bool, Value)> {
    match field.kind() {
        Kind::String => {
            let texts = texts().into_iter();
            texts
                .map(|(name, must_fail, text)| {
                    let may_be_any = name == "NUL" && ANY_TEXT.contains(&field.full_name());
                    (
                        name.to_owned(),
                        must_fail && !may_be_any,
                        Value::String(text),
                    )
                })
                .collect()
        }
        Kind::Bytes => [0, 1, 65, 70_000, HUGE]
            .map(|size| {
                let value = Value::Bytes(vec![0xFF; size].into());
                (format!("{size} bytes"), size == HUGE, value)
            })
            .into(),
        Kind::Enum(_) => [-1, 99, i32::MAX, i32::MIN]
            .map(|n| (format!("number {n}"), true, Value::EnumNumber(n)))
            .into(),
        Kind::Uint32 => [0, 1, 10_001, 1 << 31, u32::MAX - 1, u32::MAX]
            .map(|n| (format!("= {n}"), false, Value::U32(n)))
            .into(),
        Kind::Uint64 => [0, 1, 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX]
            .map(|n| (format!("= {n}"), false, Value::U64(n)))
            .into(),
        Kind::Int32 => [0, -1, 1, i32::MIN, i32::MAX]
            .map(|n| (format!("= {n}"), false, Value::I32(n)))
            .into(),
        Kind::Int64 => [0, -1, 1, i64::MIN, i64::MAX]
            .map(|n| (format!("= {n}"), false, Value::I64(n)))
            .into(),
        Kind::Float => [0.0, -1.0, 2.5, f32::MAX, f32::INFINITY, f32::NAN]
            .map(|n| (format!("= {n}"), n != 0.0, Value::F32(n)))
            .into(),
        // Each is a share.
        Kind::Double => [0.0, -1.0, 2.5, f64::MAX, f64::INFINITY, f64::NAN]
            .map(|n| (format!("= {n}"), n != 0.0, Value::F64(n)))
            .into(),
        Kind::Bool => [true, false]
            .map(|is| (format!("= {is}"), false, Value::Bool(is)))
            .into(),
        Kind::Message(message) => {
            let empty = DynamicMessage::new(message);
            vec![("empty".to_owned(), false, Value::Message(empty))]
        }
        kind => panic!("no faults are known for {kind:?}"),
    }
}

fn texts() -> Vec<(&'static str, bool, String)> {
    let deep = |open: &str, close: &str| open.repeat(100_000) + &close.repeat(100_000);
    vec![
        ("empty", false, String::new()),
        ("blank", false, " \t \u{a0}".to_owned()),
        (UNKNOWN, false, "no-such-thing".to_owned()),
        ("line breaks", false, "a\r\nb".to_owned()),
        (
            "terminal codes",
            false,
            "\x1b[31mred\x1b]0;t\x07".to_owned(),
        ),
        ("NUL", true, "a\0b".to_owned()),
        ("bidi", false, "user\u{202e}nimda\u{2066}".to_owned()),
        ("no width", false, "a\u{200b}b\u{feff}".to_owned()),
        ("other script", false, "аdmin".to_owned()),
        ("emoji", false, "👩\u{200d}🚀".to_owned()),
        ("path upwards", false, "../../etc/passwd".to_owned()),
        ("absolute path", false, "/etc/passwd".to_owned()),
        ("dots", false, "..".to_owned()),
        (
            "format string",
            false,
            "%s%n{}{0}${HOME}$(id)`id`".to_owned(),
        ),
        ("SQL", false, "x'; DROP TABLE session; --".to_owned()),
        ("JSON that is no object", false, "[1, null]".to_owned()),
        ("half of JSON", false, "{\"a\": ".to_owned()),
        ("deep lists", false, deep("[", "]")),
        (
            "deep objects",
            false,
            deep("{\"a\":", "}").replace(":}", ":0}"),
        ),
        (
            "a large number",
            false,
            format!("{{\"n\": {}}}", "9".repeat(400)),
        ),
        ("129 bytes", false, "x".repeat(129)),
        ("65,537 bytes", false, "x".repeat(65_537)),
        ("300,000 bytes", false, "ü".repeat(150_000)),
        ("5 MiB", true, "x".repeat(HUGE)),
    ]
}

/// What no encoder would write.
fn of_bytes(whole: &[u8], faults: &mut Vec<Fault>) {
    let mut add = |name: String, must_fail, bytes: Vec<u8>| {
        let bytes = Box::new(move |_: &DynamicMessage| bytes.clone());
        let must = Must::fail_if(must_fail);
        faults.push(Fault { name, must, bytes });
    };
    let appended = |more: &[u8]| [whole, more].concat();
    // Field 1000 with wire types 0 and 2.
    add("unknown number".into(), false, appended(&[0xC0, 0x3E, 7]));
    add(
        "unknown text".into(),
        false,
        appended(&[0xC2, 0x3E, 2, b'h', b'i']),
    );
    add("field number 0".into(), true, appended(&[0x00, 0x00]));
    add("wire type 7".into(), true, appended(&[0x0F]));
    add("endless number".into(), true, appended(&[0xFF; 16]));
    add(
        "length beyond the end".into(),
        true,
        appended(&[0xC2, 0x3E, 0xFF, 0xFF, 0x03]),
    );
    add(
        "deep groups".into(),
        true,
        appended(&[0xC3, 0x3E].repeat(100_000)),
    );
    add(
        "text that is not UTF-8".into(),
        false,
        appended(&[0x0A, 2, 0xC3, 0x28]),
    );
    add("everything twice".into(), false, appended(whole));
    for length in 1..whole.len().min(48) {
        add(format!("cut at {length}"), false, whole[..length].to_vec());
    }
    for bit in 0..(whole.len() * 8).min(160) {
        let mut bytes = whole.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        add(format!("bit {bit} turned"), false, bytes);
    }
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for number in 0..64 {
        let bytes = (0..number).map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            u8::try_from(state >> 56).expect("eight bits")
        });
        add(format!("random bytes {number}"), false, bytes.collect());
    }
}
