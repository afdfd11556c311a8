//! Texts of each kind, made of sentences and words in an order that is always the same.

use serde_json::json;

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    English,
    Code,
    Json,
    Chinese,
    Mix,
}

pub(super) const KINDS: [Kind; 5] = [
    Kind::English,
    Kind::Code,
    Kind::Json,
    Kind::Chinese,
    Kind::Mix,
];

const ENGLISH: [&str; 24] = [
    "The harbour was quiet in the morning, and only two boats had come back before the fog.",
    "She wrote the numbers down twice, because the first page had become wet in the rain.",
    "The man at the station could not say when the next train would leave for the coast.",
    "A good plan names what has to be true at the end, and leaves the way to those who walk it.",
    "The library closes at six, but the reading room stays open for another hour on Thursdays.",
    "Most of the bridge was built by hand, with stone that came down the river on rafts.",
    "If the pump stops again tonight, call me at once instead of waiting until the morning.",
    "They measured the temperature every ten minutes and found no difference worth reporting.",
    "His grandmother kept bees, and sold the honey at the market behind the old town hall.",
    "The committee agreed that the proposal was sound, although three of its members disliked the tone.",
    "Water boils at a lower temperature in the mountains, so the beans take much longer to become soft.",
    "We should compare both offers carefully before we sign something that cannot be undone.",
    "The second experiment failed for a simple reason: the freezer had been unplugged over the weekend.",
    "Along the northern wall grew roses that had never been planted, at least not in living memory.",
    "An engineer from Lisbon explained why the tunnel leaks whenever the tide is unusually high.",
    "Please remember to return the key, since there are only two of them and one is already missing.",
    "The film begins slowly and then, without any warning, becomes impossible to stop watching.",
    "Every summer the village doubles in size, and every winter it seems to disappear.",
    "Her answer was polite, short and completely useless, which was probably the intention.",
    "The woman who repaired this clock understood gears better than most people understand their own children.",
    "The report lists seventeen causes; twelve of them are different names for the same mistake.",
    "In the end, the choice was between an expensive solution now and a very expensive one later.",
    "Our neighbours play the piano on Sunday afternoons, mostly the same three pieces by Schubert.",
    "Before the war there had been a bakery here, and some people still call it the baker's corner.",
];

const CHINESE: [&str; 24] = [
    "清晨的港口很安静，大雾来临之前只有两条船回来。",
    "她把数字抄了两遍，因为第一页被雨水打湿了。",
    "车站里没有人知道下一班开往海边的火车什么时候出发。",
    "好的计划只写明最后必须达到的结果，具体怎么走由执行的人决定。",
    "图书馆六点关门，不过星期四阅览室会多开放一个小时。",
    "这座桥的大部分是用手工建成的，石料沿着河水用木筏运来。",
    "如果今天晚上水泵再停下来，请马上给我打电话，不要等到明天早上。",
    "他们每十分钟测量一次温度，没有发现值得报告的差别。",
    "他的祖母养蜜蜂，在老市政厅后面的市场上卖蜂蜜。",
    "委员会认为这个方案是可行的，尽管有三位委员不喜欢它的语气。",
    "在山上水的沸点比较低，所以豆子要煮很久才会变软。",
    "在任何人签下不能反悔的文件之前，我们应该仔细比较两份报价。",
    "第二次实验失败的原因很简单：周末有人拔掉了冰箱的插头。",
    "北墙下长着玫瑰，至少在人们的记忆里从来没有人种过它们。",
    "一位从里斯本来的工程师解释了为什么涨潮时隧道会漏水。",
    "请记得归还钥匙，因为一共只有两把，其中一把已经丢了。",
    "这部电影开头很慢，然后毫无预兆地让人再也停不下来。",
    "每到夏天村子的人口就会增加一倍，到了冬天又好像消失了一样。",
    "她的回答礼貌、简短，而且完全没有用处，这大概正是她的本意。",
    "修好这座钟的人对齿轮的了解，比大多数人对自己孩子的了解还要深。",
    "报告列出了十七个原因，其中十二个只是同一个错误的不同说法。",
    "最后只能在现在花很多钱和以后花更多的钱之间做出选择。",
    "邻居家每个星期天下午都弹钢琴，弹来弹去总是舒伯特的那三首曲子。",
    "战前这里有一家面包店，至今还有人把这个路口叫做面包店拐角。",
];

const WORDS: [&str; 32] = [
    "account", "answer", "batch", "buffer", "channel", "client", "column", "config", "cursor",
    "customer", "deadline", "entry", "event", "filter", "index", "invoice", "journal", "lease",
    "limit", "message", "offset", "order", "parser", "payload", "record", "request", "schema",
    "session", "shipment", "status", "token", "window",
];

const VERBS: [&str; 12] = [
    "append", "build", "check", "collect", "count", "decode", "find", "load", "merge", "read",
    "split", "write",
];

const NAMES: [&str; 10] = [
    "Ada Lovelace",
    "Alan Turing",
    "Grace Hopper",
    "Chen Wei",
    "Maria Silva",
    "John Smith",
    "Fatima Khan",
    "Lars Jensen",
    "Yuki Tanaka",
    "Olga Petrova",
];

/// Texts of one kind, one after another.
#[derive(Debug)]
pub(super) struct Texts {
    kind: Kind,
    state: u64,
}

impl Texts {
    pub(super) fn of(kind: Kind) -> Self {
        Self {
            kind,
            state: 0x9E37_79B9_7F4A_7C15,
        }
    }

    /// A reply of some lines.
    pub(super) fn short(&mut self) -> String {
        self.pieces(2)
    }

    /// The result of a call.
    pub(super) fn long(&mut self) -> String {
        self.pieces(4)
    }

    fn pieces(&mut self, count: usize) -> String {
        let pieces: Vec<_> = (0..count).map(|_| self.piece(self.kind)).collect();
        pieces.join("\n")
    }

    fn piece(&mut self, kind: Kind) -> String {
        match kind {
            Kind::English => self.sentences(&ENGLISH, " "),
            Kind::Chinese => self.sentences(&CHINESE, ""),
            Kind::Code => match self.number(3) {
                0 => self.rust(),
                1 => self.python(),
                _ => self.sql(),
            },
            Kind::Json => self.json(),
            Kind::Mix => match self.number(6) {
                0 => self.piece(Kind::English),
                1 => self.piece(Kind::Chinese),
                2 => format!("```\n{}```", self.piece(Kind::Code)),
                3 => self.piece(Kind::Json),
                4 => self.table(),
                _ => self.log(),
            },
        }
    }

    /// A number below `below`, from a series that looks like chance.
    fn number(&mut self, below: usize) -> usize {
        let state = self.state.wrapping_mul(6_364_136_223_846_793_005);
        self.state = state.wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % below
    }

    fn one_of(&mut self, texts: &[&'static str]) -> &'static str {
        texts[self.number(texts.len())]
    }

    fn word(&mut self) -> &'static str {
        self.one_of(&WORDS)
    }

    fn verb(&mut self) -> &'static str {
        self.one_of(&VERBS)
    }

    fn sentences(&mut self, of: &[&'static str], between: &str) -> String {
        let sentences: Vec<_> = (0..3).map(|_| self.one_of(of)).collect();
        sentences.join(between)
    }

    fn rust(&mut self) -> String {
        let (verb, what, of) = (self.verb(), self.word(), self.word());
        let most = self.number(4_096);
        format!(
            "/// Will {verb} each {what} of the {of}.\npub fn {verb}_{what}({of}: &mut {Of}, limit: usize) -> \
             Result<Vec<u64>, {Of}Error> {{\n    let mut found = Vec::with_capacity(limit.min({most}));\n    for \
             ({what}, at) in {of}.{what}s.iter().zip(0..) {{\n        if {what}.is_empty() || at >= limit {{\n            \
             continue;\n        }}\n        found.push({what}.{verb}()?);\n    }}\n    Ok(found)\n}}\n",
            Of = capital(of),
        )
    }

    fn python(&mut self) -> String {
        let (verb, what, of) = (self.verb(), self.word(), self.word());
        let most = self.number(1_000);
        format!(
            "def {verb}_{what}s(self, {of}: str, *, limit: int = {most}) -> dict[str, list[int]]:\n    \
             \"\"\"{Verb} every {what} of one {of}.\"\"\"\n    found = defaultdict(list)\n    for row in \
             self.{of}_table.rows({of}=\"{of}\", limit=limit):\n        if row[\"{what}\"] is None:\n            \
             raise KeyError(f\"no {what} in {{row!r}}\")\n        found[row[\"name\"]].append(int(row[\"{what}\"]))\n    \
             return dict(found)\n",
            Verb = capital(verb),
        )
    }

    fn sql(&mut self) -> String {
        let (what, of, by) = (self.word(), self.word(), self.word());
        let most = self.number(500);
        format!(
            "SELECT {what}s.id, {what}s.{by}_id, COUNT(*) AS total\nFROM {what}s\nLEFT JOIN {of}s ON {of}s.id = \
             {what}s.{of}_id\nWHERE {what}s.created_at >= NOW() - INTERVAL '7 days' AND {of}s.{by} <> ''\nGROUP BY 1, \
             2\nORDER BY total DESC\nLIMIT {most};\n"
        )
    }

    /// In one line, or with an indentation.
    fn json(&mut self) -> String {
        let rows: Vec<_> = (0..2)
            .map(|_| {
                let name = self.one_of(&NAMES);
                json!({
                    "id": self.number(1_000_000),
                    "name": name,
                    "email": format!("{}@example.com", name.to_lowercase().replace(' ', ".")),
                    "total": format!("{}.{:02}", self.number(900), self.number(100)),
                    "created_at": self.time(),
                    "tags": [self.word(), self.word()],
                    "active": self.number(2) == 0,
                    "parent": null,
                })
            })
            .collect();
        let (key, next) = (self.word(), self.number(10_000));
        let rows = json!({key: rows, "next_offset": next});
        match self.number(2) {
            0 => rows.to_string(),
            _ => format!("{rows:#}"),
        }
    }

    fn time(&mut self) -> String {
        let (day, hour) = (1 + self.number(28), self.number(24));
        let (minute, second) = (self.number(60), self.number(60));
        format!("2026-11-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }

    fn table(&mut self) -> String {
        let rows: Vec<_> = (0..4)
            .map(|_| {
                let (what, line) = (self.word(), self.number(900));
                format!(
                    "| src/{what}/{}.rs | {line} | {} |",
                    self.verb(),
                    self.word()
                )
            })
            .collect();
        format!(
            "| file | line | 说明 |\n|---|---:|---|\n{}",
            rows.join("\n")
        )
    }

    fn log(&mut self) -> String {
        let lines: Vec<_> = (0..4)
            .map(|_| {
                let (time, what, took) = (self.time(), self.word(), self.number(5_000));
                format!(
                    "{time}  INFO {what}_service: {what} is ready took={took}ms retries={}",
                    self.number(4)
                )
            })
            .collect();
        lines.join("\n")
    }
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    format!("{}{rest}", first.to_uppercase())
}
