//! The built-in word lists: which words of a goal are no subject, and which name kinds of files.

/// Words that never are what a goal is about.
const STOP: &str = "
a an the this that these those it its they them their there here he she his her we us our you your
i me my mine someone anyone everyone
is are was were be been being am do does did done doing has have had having can could will would
shall should may might must don't doesn't can't isn't aren't let let's gets got
and or but nor not no yes if then else than so as at by for from in into of off on onto out over to
up with within without under below beneath inside between among across through about around against
during before after above per via
which what where when who whom whose why how whether
find finds search searches look looking list lists show shows tell tells give get count counting
counts number numbers many much see check scan read reading write make create describe describes
explain explains say says said saying mention mentions mentioned mentioning contain contains
containing contained include includes including included reference references refer refers
referring discuss discusses discussed talk talks use uses used using occur occurs occurring appear
appears appearing exist exists summarise summarize summarises summarizes summary summaries overview
outline report reports compare comparing comparison comparisons versus vs difference differences
differ identify locate collect gather review analyse analyze analysis inspect explore survey
produce prepare generate draft name
file files folder folders directory directories dir subfolder subdirectory document documents doc
docs text texts project projects repository repo workspace codebase code source sources content
contents
please kindly help want need needs like also each every all any some both either neither other
others another one ones two three only just most more less least first last top whole entire
everything anything something nothing current same such
written wrote write writes called call calls calling defined define defines implement implemented
handle handled handling work works working stored live lives bigger larger smaller longer shorter
mb kb gb kib mib gib byte bytes grep anywhere somewhere everywhere
thing things related regarding concerning according
hello hi hey thanks thank good morning evening day ok okay bye welcome
etc e.g i.e answer answers question questions result results finding findings
user feedback plan revise revised step steps
";

/// Words that are taken for the subject only where nothing else is left.
const WEAK: &str = "
line lines word words function functions method methods class classes section sections chapter
chapters paragraph paragraphs page pages example examples comment comments names term terms size
sizes language languages topic topics subject subjects part parts place places way ways structure
type types kind kinds information detail details documentation book story stories people
heading headings title titles biggest largest smallest longest
";

/// Chinese phrases that separate subjects and are none.
const HAN_STOP: &str = "
为什么 有没有 能不能 怎么样 哪些 哪个 哪里 哪儿 哪几 什么 怎么 怎样 如何 多少 是否 有无 几个 谁
文件夹 源代码 源文件 工作区 代码库 文件 文档 目录 代码 源码 项目 仓库 工程 内容 文本 文章
提到过 提到 提及 提起 谈到 谈及 说到 讲到 写到 涉及 包含 含有 包括 出现 使用 用到 引用 关于 有关
相关 写了 说了 讲了 都有
查找 搜索 寻找 找出 找到 查询 查看 查一下 看看 看一下 列出 列举 统计 数一数 汇总 总结 概括 归纳
概述 介绍 说明 描述 解释 比较 对比 分析 整理 告诉 显示 展示 阅读 读取 读一下 写一份 写一个 写一篇
写出 写成 生成 输出 给出 报告 总览 区别 差异 异同 搜一下 找一下 找找
一下 一个 一份 一些 这些 那些 这个 那个 它们 他们 我们 你们 所有 全部 每个 各个 各种 其中 之间 以及
并且 而且 然后 或者 还有 还是 同时 分别 进行 需要 可以 能否 请问 帮我 帮忙 给我 麻烦 我想 想要 知道
里面 下面 当中 地方 之处 情况 次数 数量 当前 整个 名字 叫做 不要 去掉
是做什么 做什么 干什么 是什么 用来 在哪里 在哪些 在哪儿 在哪 是谁 有哪些 有什么 有多少
的 了 吗 呢 吧 啊
";

/// Chinese words that are taken for the subject only where nothing else is left.
const HAN_WEAK: &str = "函数 方法 章节 段落 注释 标题 大小 结构 语言 种类 类型 信息 细节";

/// Folder names that are so common that `in docs` means the folder.
const FOLDERS: &str = "
docs doc src lib libs test tests example examples scripts services shared crates proto deploy notes
posts chapters assets app apps packages pkg cmd
";

/// Endings by which a word is known as the name of a file.
const ENDINGS: &str = "
md markdown txt rst adoc rs py toml json yaml yml js mjs cjs jsx ts tsx go java kt c h cc cpp cxx
hpp rb sh bash html htm css sql proto xml csv log lock cfg ini conf
";

/// Kinds of files that people name, and their endings.
const KINDS: [(&str, &[&str]); 25] = [
    ("markdown", &["*.md", "*.markdown"]),
    ("rust", &["*.rs"]),
    ("python", &["*.py"]),
    ("javascript", &["*.js", "*.mjs", "*.cjs", "*.jsx"]),
    ("typescript", &["*.ts", "*.tsx"]),
    ("go", &["*.go"]),
    ("golang", &["*.go"]),
    ("java", &["*.java"]),
    ("kotlin", &["*.kt"]),
    ("ruby", &["*.rb"]),
    ("c", &["*.c", "*.h"]),
    ("c++", &["*.cpp", "*.cc", "*.cxx", "*.hpp", "*.h"]),
    ("toml", &["*.toml"]),
    ("yaml", &["*.yaml", "*.yml"]),
    ("json", &["*.json"]),
    ("html", &["*.html", "*.htm"]),
    ("css", &["*.css"]),
    ("shell", &["*.sh", "*.bash"]),
    ("bash", &["*.sh", "*.bash"]),
    ("sql", &["*.sql"]),
    ("proto", &["*.proto"]),
    ("protobuf", &["*.proto"]),
    ("xml", &["*.xml"]),
    ("csv", &["*.csv"]),
    ("txt", &["*.txt"]),
];

fn has(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|entry| entry == word)
}

/// Whether the lower-case `word` is never a subject.
pub(super) fn is_stop(word: &str) -> bool {
    has(STOP, word)
}

/// Whether the lower-case `word` is a subject only where nothing else is left.
pub(super) fn is_weak(word: &str) -> bool {
    has(WEAK, word) || has(HAN_WEAK, word)
}

/// Whether the lower-case `word` is a very common folder name.
pub(super) fn is_folder(word: &str) -> bool {
    has(FOLDERS, word)
}

/// Whether `word` ends as the names of files do.
pub(super) fn is_file_name(word: &str) -> bool {
    word.rsplit_once('.').is_some_and(|(stem, ending)| {
        !stem.is_empty() && !stem.ends_with('*') && has(ENDINGS, &ending.to_lowercase())
    })
}

/// The patterns of the kind of files that the lower-case `word` names.
pub(super) fn patterns_of(word: &str) -> Option<&'static [&'static str]> {
    KINDS
        .iter()
        .find(|(kind, _)| *kind == word)
        .map(|(_, patterns)| *patterns)
}

/// The subjects in a run of Han characters: what is left between the stop phrases.
/// `after_subject`: the run follows a word or phrase, so that a leading "and" joins the two.
pub(super) fn subjects(run: &str, after_subject: bool) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut rest = run;
    while let Some(first) = rest.chars().next() {
        // The lists hold no phrase that begins another one unless the longer one stands first.
        let stop = HAN_STOP
            .split_whitespace()
            .filter(|phrase| rest.starts_with(phrase))
            .max_by_key(|phrase| phrase.len());
        if let Some(phrase) = stop {
            pieces.push(String::new());
            rest = &rest[phrase.len()..];
        } else {
            if let Some(last) = pieces.last_mut() {
                last.push(first);
            }
            rest = &rest[first.len_utf8()..];
        }
    }
    if after_subject && let Some(first) = pieces.first_mut() {
        *first = first.trim_start_matches(is_joint).to_owned();
    }
    pieces
        .iter()
        .flat_map(|piece| split_at_joint(piece))
        .map(|piece| trimmed(&piece))
        .filter(|piece| !piece.is_empty())
        .collect()
}

fn is_joint(c: char) -> bool {
    matches!(c, '和' | '与' | '或' | '及' | '跟')
}

/// "And" and "or" are parts of many words, so they split only between two longer pieces.
fn split_at_joint(piece: &str) -> Vec<String> {
    let chars: Vec<char> = piece.chars().collect();
    let joint = (2..chars.len().saturating_sub(2)).find(|at| is_joint(chars[*at]));
    let Some(at) = joint else {
        return vec![piece.to_owned()];
    };
    let mut pieces = vec![chars[..at].iter().collect()];
    pieces.extend(split_at_joint(&chars[at + 1..].iter().collect::<String>()));
    pieces
}

/// Takes "in …" off a piece; only from longer ones, since the characters also begin and end words.
fn trimmed(piece: &str) -> String {
    let chars: Vec<char> = piece.chars().collect();
    let inside = chars.len() >= 3 && "中里下上内".contains(chars[chars.len() - 1]);
    if !inside {
        return piece.to_owned();
    }
    let from = usize::from(chars[0] == '在' && chars.len() >= 4);
    chars[from..chars.len() - 1].iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chinese_subjects_are_what_the_stop_phrases_leave() {
        assert_eq!(
            subjects("下哪些文件提到了会话记忆", true),
            ["下", "会话记忆"]
        );
        assert_eq!(
            subjects("会话记忆和持久化如何实现", false),
            ["会话记忆", "持久化", "实现"]
        );
        assert_eq!(
            subjects("在三国演义里找出曹操", false),
            ["三国演义", "曹操"]
        );
        assert_eq!(subjects("和持久化", true), ["持久化"]);
        assert_eq!(subjects("共和国的上下文", false), ["共和国", "上下文"]);
    }

    #[test]
    fn names_of_files_are_known_by_their_ending() {
        assert!(is_file_name("docs/a.md") && is_file_name("Main.RS"));
        assert!(!is_file_name("v1.2") && !is_file_name("*.md") && !is_file_name(".md"));
    }
}
