//! The word table: which words of a text are no subject, and which name folders and files.

/// Words that never are what a text asks about.
const STOP: &str = "
a an the this that these those it its they them their there here he she his her we us our you your i
me my mine is are was were be been being am do does did done has have had having can could will
would shall should may might must don't doesn't can't isn't aren't let and or but nor not no yes if
then else than so as at by for from in into of off on onto out over to up with within without under
below beneath inside between among across through about around against during before after above per
via which what where when who whom whose why how whether find finds search searches look looking
list lists show shows tell tells give get count counting number numbers many much see check scan
read reads reading write writes writing make create describe explain say says said saying ask asked
told earlier previous previously again mention mentions mentioned contain contains containing
include includes refer refers discuss talk talks use uses used using occur occurs appear appears
appearing exist exists summarise summarize summary overview outline report reports compare
difference differences locate collect review analyse analyze inspect explore survey save store put
produce prepare file files folder folders directory directories dir document documents doc docs text
texts project projects repository repo workspace codebase code source sources content contents
please help want need like also each every all any some both either other another one two three only
just most more less least first last top whole entire everything anything something nothing current
same such begin begins beginning thing things related hello hi hey thanks thank good ok okay bye etc
e.g i.e answer question result results finding found drop remove skip forget leave except plan
revise step steps line lines word words page pages example examples comment comments term terms
title titles structure type types kind kinds detail details information way ways part parts place
places remember";

/// Names so common that `in docs` means the folder.
pub(super) const FOLDERS: &str = "docs doc src lib libs test tests example examples scripts services \
                                  shared proto deploy notes apps packages";

/// Endings of files, which are no subjects before "files" either.
const ENDINGS: &str = "md markdown txt rst adoc rs rust py python toml json yaml yml js javascript ts \
                       typescript tsx go java kt c h cc cpp hpp rb ruby sh html css sql proto xml csv \
                       log lock cfg ini conf";

/// Whether a list of words has `word`.
pub(super) fn has(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|entry| entry == word)
}

/// Whether the lower-case `word` is no subject before `next`.
pub(super) fn is_stop(word: &str, next: &str) -> bool {
    has(STOP, word) || (has("file files", next) && has(ENDINGS, word))
}

/// Whether the lower-case `word` ends as the names of files do.
pub(super) fn is_file_name(word: &str) -> bool {
    let parts = word.rsplit_once('.');
    parts.is_some_and(|(stem, ending)| !stem.is_empty() && has(ENDINGS, ending))
}
