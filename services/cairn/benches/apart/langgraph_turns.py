"""Has conversations with LangGraph and its SQLite saver, and prints the time of their turns.

    python3 langgraph_turns.py FOLDER [TURNS ...]

FOLDER gets an environment with LangGraph from the Python package index, unless it has one. For each
number of turns, a line of JSON has the milliseconds of each turn. The model is a function that returns
a fixed reply. SQLite commits with synchronous=FULL, and each step is durable before the next one.
"""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
import venv

PACKAGES = [
    "langgraph==1.2.24",
    "langgraph-checkpoint==4.3.2",
    "langgraph-checkpoint-sqlite==3.1.2",
    "langchain-core==1.8.3",
]
QUESTION_BYTES = 200
REPLY_BYTES = 300


def filled(start, words, length):
    return (start + words * length)[:length]


def environment(folder):
    """The Python of the environment in the folder, which is made if it is not there."""
    path = os.path.join(folder, "venv")
    python = os.path.join(path, "bin", "python")
    if not os.path.exists(os.path.join(path, "complete")):
        venv.create(path, with_pip=True)
        install = [python, "-m", "pip", "install", "--quiet", *PACKAGES]
        subprocess.run(install, check=True, stdout=sys.stderr)
        open(os.path.join(path, "complete"), "w").close()
    return python


def build(connection):
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, MessagesState, StateGraph

    def model(state):
        turn = len(state["messages"]) // 2
        return {"messages": [AIMessage(filled(f"Answer {turn:05}: ", "it carries ten tonnes. ", REPLY_BYTES))]}

    saver = SqliteSaver(connection)
    saver.setup()
    connection.execute("PRAGMA synchronous=FULL")
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    level = connection.execute("PRAGMA synchronous").fetchone()[0]
    assert (mode, level) == ("wal", 2), (mode, level)
    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_edge(START, "model")
    graph.add_edge("model", END)
    return graph.compile(checkpointer=saver)


def converse(folder, turns):
    """The milliseconds of each turn of a conversation."""
    from langchain_core.messages import HumanMessage

    with tempfile.TemporaryDirectory(dir=folder) as place:
        connection = sqlite3.connect(os.path.join(place, "turns.db"), check_same_thread=False)
        graph = build(connection)
        config = {"configurable": {"thread_id": "s"}}
        times = []
        for turn in range(turns):
            question = filled(f"Question {turn:05}: ", "what does the bridge carry? ", QUESTION_BYTES)
            began = time.perf_counter()
            state = graph.invoke({"messages": [HumanMessage(question)]}, config, durability="sync")
            times.append((time.perf_counter() - began) * 1000)
            assert len(state["messages"]) == 2 * turn + 2
        connection.close()
        return times


def main():
    folder, numbers = sys.argv[1], [int(turns) for turns in sys.argv[2:]]
    python = environment(folder)
    if os.path.realpath(sys.prefix) != os.path.realpath(os.path.join(folder, "venv")):
        os.execv(python, [python, os.path.abspath(__file__), *sys.argv[1:]])
    for turns in numbers:
        print(json.dumps({"turns": turns, "ms": converse(folder, turns)}), flush=True)


if __name__ == "__main__":
    main()
