//! What rules cannot do, and by which words a goal asks for it.

use super::words::{Token, tokens, unquoted};

const CHANGE: &str = "change files";
const CODE: &str = "write code";
const TEXTS: &str = "write texts of its own";
const RUN: &str = "run commands";
const NETWORK: &str = "use the network";
const TRANSLATE: &str = "translate";
const ARITHMETIC: &str = "do arithmetic";
const JUDGE: &str = "judge, plan or advise";
const OTHER: &str = "do anything outside the workspace";

/// Verbs that open a request, with what they ask for.
const VERBS: [(&str, &str); 9] = [
    (
        CHANGE,
        "fix change edit modify update rename delete remove refactor rewrite replace move add \
         append insert reformat format improve optimise optimize clean migrate convert merge split \
         commit patch bump upgrade downgrade",
    ),
    (CODE, "implement code program develop"),
    (
        RUN,
        "run execute compile build install deploy test benchmark debug start restart kill",
    ),
    (
        NETWORK,
        "download fetch browse google ping upload send email post publish visit crawl scrape curl",
    ),
    (TRANSLATE, "translate"),
    (
        ARITHMETIC,
        "calculate compute solve multiply divide subtract",
    ),
    (
        OTHER,
        "book buy order remind schedule draw paint play sing pay",
    ),
    (
        JUDGE,
        "review plan invent imagine audit judge evaluate assess proofread criticise criticize recommend suggest advise decide",
    ),
    (TEXTS, "write create generate make draft compose"),
];

/// What may be "written": it is what an offline model's report is.
const REPORTS: &str = "report reports summary overview list table outline comparison answer index \
    inventory findings what which where how count everything";

const PROGRAMS: &str = "function functions program programs script scripts code test tests app \
    class module library api crate package website server";

const QUESTIONS: &str = "which what what's where where's when who who's whose why how is are was were \
    do does did has have";

const POLITE: &str = "please can could would will you i we want need like to help me us let let's \
    now also then and just kindly i'd d first finally next";

const HAN_QUESTIONS: [&str; 11] = [
    "哪",
    "什么",
    "如何",
    "怎么",
    "怎样",
    "是否",
    "有没有",
    "多少",
    "为什么",
    "吗",
    "谁",
];

const HAN_POLITE: &str = "请问 请 帮我 帮忙 帮 给我 麻烦 你 能不能 能否 可以 我想要 我想 我要 我需要 \
    需要 然后 并且 并 再 接着 最后 首先 先 去";

const HAN_VERBS: [(&str, &str); 8] = [
    (
        CHANGE,
        "修改 更改 改写 改成 改为 改名 重构 修复 修正 修好 删除 删掉 移动 重命名 替换 添加 增加 新增 \
         加上 更新 优化 格式化 合并 提交 创建 新建",
    ),
    (
        CODE,
        "实现 编写 编程 写代码 写程序 写函数 写脚本 写测试 写一个程序 写一个函数 写一个脚本 写一段代码 \
         写个程序 写个函数 写个脚本 生成代码 开发",
    ),
    (RUN, "运行 执行 编译 构建 部署 安装 启动 测试 调试"),
    (
        NETWORK,
        "下载 上网 联网 浏览 抓取 访问 发送 发邮件 上传 发布",
    ),
    (TRANSLATE, "翻译"),
    (JUDGE, "审查 评审 评价 建议 推荐 规划"),
    (ARITHMETIC, "计算 算一下 算出 求解"),
    (
        TEXTS,
        "写一首 写首 写诗 写小说 写故事 写一个故事 写邮件 写信 写一封 创作",
    ),
];

const HAN_PROGRAMS: [&str; 8] = [
    "函数", "程序", "脚本", "代码", "算法", "测试", "接口", "网站",
];

const HAN_REPORTS: [&str; 7] = ["报告", "总结", "汇总", "概述", "清单", "列表", "说明"];

/// What `goal` asks for and rules cannot do; none if it can be rehearsed. The answer completes the
/// sentence "offline cannot …".
pub(super) fn of(goal: &str) -> Option<&'static str> {
    if is_arithmetic(goal) {
        return Some(ARITHMETIC);
    }
    let tokens = tokens(goal);
    tokens
        .split(|token| *token == Token::Stop)
        .find_map(|sentence| english(sentence).or_else(|| chinese(sentence)))
}

/// The reasons that a wish to change the plan gives by its wording, and does not mean.
pub(super) fn is_about_plan(reason: &str) -> bool {
    matches!(reason, CHANGE | CODE | TEXTS | OTHER | JUDGE)
}

fn has(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|entry| entry == word)
}

fn english(sentence: &[Token]) -> Option<&'static str> {
    // A quoted phrase or a Chinese run is an object, never a verb.
    let words: Vec<String> = sentence
        .iter()
        .map(|token| match token {
            Token::Word(word) => word.to_lowercase(),
            Token::Comma => ",".into(),
            _ => "…".into(),
        })
        .collect();
    let start = words.iter().position(|w| w != "," && !has(POLITE, w))?;
    let words = &words[start..];
    if has(QUESTIONS, &words[0]) {
        return None;
    }
    let online = ["web", "internet", "online"]
        .iter()
        .any(|w| words.contains(&(*w).to_owned()));
    if online
        && has("search look find browse check get", &words[0])
        && !words.contains(&"in".into())
    {
        return Some(NETWORK);
    }
    asked(words).or_else(|| {
        let joints = (1..words.len()).filter(|at| has("and then or , to", &words[at - 1]));
        joints
            .filter(|at| has(OBJECTS, words.get(at + 1).map_or("", String::as_str)))
            .find_map(|at| asked(&words[at..]))
    })
}

/// After "and", a word is a verb only where an object follows it.
const OBJECTS: &str = "them it this that these those the all each every a an my our any …";

/// What a clause asks for by its first word.
fn asked(clause: &[String]) -> Option<&'static str> {
    let verb = clause.first()?;
    let (reason, _) = VERBS.iter().find(|(_, verbs)| has(verbs, verb))?;
    if *reason != TEXTS {
        return Some(reason);
    }
    let object: Vec<&String> = clause[1..].iter().take_while(|w| *w != ",").collect();
    if object.iter().any(|word| has(PROGRAMS, word)) && !object.iter().any(|w| has(REPORTS, w)) {
        return Some(CODE);
    }
    (!object.iter().any(|word| has(REPORTS, word))).then_some(TEXTS)
}

fn chinese(sentence: &[Token]) -> Option<&'static str> {
    let clauses: Vec<String> = sentence
        .split(|token| *token == Token::Comma)
        .map(|clause| clause.iter().map(letters).collect())
        .collect();
    let whole: String = clauses.concat();
    if HAN_QUESTIONS.iter().any(|word| whole.contains(word)) {
        return None;
    }
    clauses.iter().find_map(|clause| {
        clause
            .split("并")
            .flat_map(|part| part.split("然后"))
            .find_map(han_asked)
    })
}

fn letters(token: &Token) -> &str {
    match token {
        Token::Han(run) => run,
        // What stands in quotation marks is an object; a gap keeps its neighbours apart.
        _ => " ",
    }
}

fn han_asked(clause: &str) -> Option<&'static str> {
    let mut clause = clause.trim();
    while let Some(rest) = HAN_POLITE
        .split_whitespace()
        .find_map(|word| clause.strip_prefix(word))
    {
        clause = rest.trim_start();
    }
    let made = ["写", "编写", "创建", "生成"]
        .iter()
        .any(|verb| clause.starts_with(verb));
    let has = |nouns: &[&str]| nouns.iter().any(|noun| clause.contains(noun));
    if made && has(&HAN_PROGRAMS) && !has(&HAN_REPORTS) {
        return Some(CODE);
    }
    let moved = clause.starts_with('把') || clause.starts_with('将');
    HAN_VERBS.iter().find_map(|(reason, verbs)| {
        verbs
            .split_whitespace()
            .any(|verb| clause.starts_with(verb) || (moved && clause.contains(verb)))
            .then_some(*reason)
    })
}

/// Two numbers with an operator between them, outside of quotation marks.
fn is_arithmetic(goal: &str) -> bool {
    let plain = unquoted(goal).replace("乘以", "×").replace("除以", "÷");
    let spread: String = plain
        .chars()
        .flat_map(|c| {
            let gap = "+*×÷^=?？加减乘除".contains(c).then_some(' ');
            [gap, Some(c), gap].into_iter().flatten()
        })
        .collect();
    let words: Vec<&str> = spread.split_whitespace().collect();
    let number = |at: usize| {
        words
            .get(at)
            .is_some_and(|word| word.parse::<f64>().is_ok())
    };
    (1..words.len()).any(|at| {
        // A dash or a stroke between numbers is more often a range or a date.
        let asked = at >= 2 && has("is calculate compute", &words[at - 2].to_lowercase());
        let operator = has("+ * × ÷ ^ plus minus times 加 减 乘 除", words[at])
            || (asked && has("- /", words[at]));
        operator && number(at - 1) && number(at + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_beyond_the_rules_are_refused() {
        for (goal, reason) in [
            ("Fix the typo in README.md", CHANGE),
            ("Please rename all uses of foo to bar.", CHANGE),
            ("Find all TODO comments and fix them", CHANGE),
            ("Run cargo test", RUN),
            ("Review my code for bugs", JUDGE),
            ("Plan a trip to Kyoto", JUDGE),
            ("帮我写一个排序函数", CODE),
            ("Write a function that sorts numbers", CODE),
            ("Write a poem about the sea", TEXTS),
            ("Could you translate docs/a.md to French?", TRANSLATE),
            ("What is 17 * 23?", ARITHMETIC),
            ("calculate the sum of the sizes", ARITHMETIC),
            ("Download the newest release", NETWORK),
            ("Search the web for Redis", NETWORK),
            ("Book a table for two", OTHER),
            ("请把 docs 翻译成英文", TRANSLATE),
            ("帮我修改 README.md 里的错别字", CHANGE),
            ("把所有 foo 改成 bar", CHANGE),
            ("运行测试", RUN),
            ("写一首关于大海的诗", TEXTS),
            ("12 加 30 等于多少", ARITHMETIC),
            ("找出 TODO，然后修复它们", CHANGE),
        ] {
            assert_eq!(of(goal), Some(reason), "{goal}");
        }
    }

    #[test]
    fn questions_about_such_words_are_not() {
        for goal in [
            "Which files under docs mention Redis, and what do they say about it?",
            "How do I install and run the server?",
            "Which files describe how to deploy?",
            "Find \"fix the build\" in src",
            "Write a report on the files that mention TODO",
            "Write what was found to report.md",
            "List the Markdown files under docs and their sizes.",
            "Search for build and test",
            "Where is 2024-01-02 mentioned?",
            "哪些文件提到了部署？",
            "列出提到“翻译”的文件",
            "统计 src 目录下的 TODO",
            "写一份关于会话记忆的报告",
            "生成一份代码结构的总结",
        ] {
            assert_eq!(of(goal), None, "{goal}");
        }
    }
}
