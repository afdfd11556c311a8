//! Reads a struct of settings from the tree, by the types of its fields.

use super::node::{Node, Value};
use super::problem::Problem;
use super::secret;
use serde::de::value::{MapAccessDeserializer, StringDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use std::collections::btree_map;
use std::vec;

/// A node that is about to be read.
pub(super) struct Reader(pub(super) Node);

impl Reader {
    /// Reads with `read`, and puts this node's place on a problem that has none.
    fn located<T>(self, read: impl FnOnce(Value) -> Result<T, Problem>) -> Result<T, Problem> {
        let Node {
            path,
            origin,
            value,
        } = self.0;
        let place = Node {
            path,
            origin,
            value: Value::Bool(false),
        };
        read(value).map_err(|problem| problem.at(&place))
    }

    /// A text that is to be a list: `["a", "b"]`, or `a, b`.
    fn into_list(self) -> Self {
        let node = self.0.expanded();
        let Value::Text(text) = &node.value else {
            return Self(node);
        };
        let items = text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty());
        let items = items.enumerate().map(|(index, item)| Node {
            path: format!("{}[{index}]", node.path),
            origin: node.origin.clone(),
            value: Value::Text(item.to_owned()),
        });
        Self(Node {
            value: Value::Array(items.collect()),
            ..node
        })
    }
}

fn any<'de, V: Visitor<'de>>(value: Value, visitor: V) -> Result<V::Value, Problem> {
    match value {
        Value::Bool(value) => visitor.visit_bool(value),
        Value::Integer(value) => visitor.visit_i64(value),
        Value::Float(value) => visitor.visit_f64(value),
        Value::String(text) | Value::Text(text) => visitor.visit_string(text),
        Value::Array(items) => visitor.visit_seq(Items(items.into_iter())),
        Value::Table(children) => visitor.visit_map(Entries::new(children.into_iter())),
    }
}

/// Numbers and truth values: a text is read as one, or else shown as what it is.
fn scalar<'de, V: Visitor<'de>>(
    value: Value,
    visitor: V,
    read: impl FnOnce(&str) -> Option<Value>,
) -> Result<V::Value, Problem> {
    match value {
        Value::Text(text) => match read(text.trim()) {
            Some(value) => any(value, visitor),
            None => Err(Problem::invalid_value(Unexpected::Str(&text), &visitor)),
        },
        value => any(value, visitor),
    }
}

fn integer(text: &str) -> Option<Value> {
    text.parse().ok().map(Value::Integer)
}

fn float(text: &str) -> Option<Value> {
    text.parse().ok().map(Value::Float)
}

fn boolean(text: &str) -> Option<Value> {
    text.parse().ok().map(Value::Bool)
}

macro_rules! scalars {
    ($($method:ident: $read:ident),* $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
            self.located(|value| scalar(value, visitor, $read))
        }
    )*};
}

impl<'de> Deserializer<'de> for Reader {
    type Error = Problem;

    scalars! {
        deserialize_bool: boolean,
        deserialize_i8: integer,
        deserialize_i16: integer,
        deserialize_i32: integer,
        deserialize_i64: integer,
        deserialize_u8: integer,
        deserialize_u16: integer,
        deserialize_u32: integer,
        deserialize_u64: integer,
        deserialize_f32: float,
        deserialize_f64: float,
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.located(|value| any(value, visitor))
    }

    /// An empty variable stands for no value: shells and containers cannot say it otherwise.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match &self.0.value {
            Value::Text(text) if text.is_empty() => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        let read = visitor.visit_newtype_struct(self);
        match name {
            secret::MARK => read.map_err(Problem::without_value),
            _ => read,
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.into_list().deserialize_any(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        Self(self.0.expanded()).deserialize_any(visitor)
    }

    /// A struct takes the names of its fields and no others, whatever its attributes say.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        let node = self.0.expanded();
        if let Value::Table(children) = &node.value {
            for (name, child) in children {
                if !fields.contains(&name.as_str()) {
                    return Err(Problem::unknown_field(name, fields).at(child));
                }
            }
        }
        Self(node).deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        Self(self.0.expanded()).located(|value| match value {
            Value::String(text) | Value::Text(text) => visitor.visit_enum(Name(text)),
            Value::Table(children) => {
                let entries = Entries::new(children.into_iter());
                visitor.visit_enum(MapAccessDeserializer::new(entries))
            }
            value => any(value, visitor),
        })
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct identifier
    }
}

struct Items(vec::IntoIter<Node>);

impl<'de> SeqAccess<'de> for Items {
    type Error = Problem;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Problem> {
        let item = self.0.next();
        item.map(|node| seed.deserialize(Reader(node))).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct Entries {
    entries: btree_map::IntoIter<String, Node>,
    next: Option<Node>,
}

impl Entries {
    fn new(entries: btree_map::IntoIter<String, Node>) -> Self {
        Self {
            entries,
            next: None,
        }
    }
}

impl<'de> MapAccess<'de> for Entries {
    type Error = Problem;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Problem> {
        let Some((name, node)) = self.entries.next() else {
            return Ok(None);
        };
        let name: StringDeserializer<Problem> = name.into_deserializer();
        let key = seed.deserialize(name).map_err(|problem| problem.at(&node));
        self.next = Some(node);
        key.map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Problem> {
        match self.next.take() {
            Some(node) => seed.deserialize(Reader(node)),
            None => Err(Problem::custom("a value was read before its name")),
        }
    }
}

/// A variant of an enum that is nothing but a name.
struct Name(String);

impl<'de> EnumAccess<'de> for Name {
    type Error = Problem;
    type Variant = NameOnly;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, NameOnly), Problem> {
        let name: StringDeserializer<Problem> = self.0.into_deserializer();
        Ok((seed.deserialize(name)?, NameOnly))
    }
}

struct NameOnly;

impl<'de> VariantAccess<'de> for NameOnly {
    type Error = Problem;

    fn unit_variant(self) -> Result<(), Problem> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, Problem> {
        Err(Problem::invalid_type(Unexpected::UnitVariant, &"a table"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Problem> {
        Err(Problem::invalid_type(Unexpected::UnitVariant, &"a table"))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Problem> {
        Err(Problem::invalid_type(Unexpected::UnitVariant, &"a table"))
    }
}
