"""`oelm prepare` beside the tokenizer library on its own: what reading, splitting and writing cost on top of encoding.

Both encode the same stories with the same BPE. The library gets all documents in memory in one call, on all cores,
and returns ids; `prepare` reads a text file, holds out documents, encodes, writes token files and their digests.
"""

from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from oelm.base.files import write_text
from oelm.base.runtime import Runtime
from oelm.bench.bench_record import Preparing, PreparingRow
from oelm.bench.rounds import Emit, interleave
from oelm.bench.spec import BenchSpec
from oelm.bench.statistics import ratio_of
from oelm.data.prepare import prepare
from oelm.data.prepare_request import PrepareRequest
from oelm.data.progress import Silent
from oelm.data.sources import Files
from oelm.data.stories import stories
from oelm.data.tokenizer import END_OF_TEXT, load_tokenizer, save_tokenizer, train_bpe

TEXT_BYTES = 20_000_000
LIBRARY, OURS = "tokenizers library", "oelm prepare"


def measure_preparing(spec: BenchSpec, runtime: Runtime, emit: Emit) -> Preparing:
    """The two in turns; a round encodes the whole text once with each."""
    documents = _documents(TEXT_BYTES)
    with TemporaryDirectory() as made:
        folder = Path(made)
        text, tokenizer = folder / "stories.txt", folder / "tokenizer.json"
        write_text(text, f"\n{END_OF_TEXT}\n".join(documents))
        save_tokenizer(train_bpe(iter(documents[:2000]), spec.shape.vocabulary), tokenizer)
        library = load_tokenizer(tokenizer)
        source = Files(paths=(str(text),))
        request = PrepareRequest(source=source, tokenizer_files=(str(tokenizer),))
        acts = {
            LIBRARY: lambda _: library.encode_batch_fast(documents, add_special_tokens=False),
            OURS: lambda _: prepare(request, folder / "tokens", overwrite=True, progress=Silent()),
        }
        timed = interleave(acts, rounds=spec.rounds, repeats=1, runtime=runtime, product=None, emit=emit)
    size = sum(len(document.encode()) for document in documents)
    rows = tuple(
        PreparingRow(
            name=name,
            round_seconds=timed.rounds[name],
            bytes_per_second=size / median(timed.rounds[name]),
            ratio=None if name == LIBRARY else ratio_of(timed.rounds[name], timed.rounds[LIBRARY]),
        )
        for name in acts
    )
    return Preparing(spec=spec, text_bytes=size, documents=len(documents), rows=rows)


def _documents(text_bytes: int) -> list[str]:
    """Whole stories until there is so much text."""
    documents, size = [], 0
    for story in stories(0):
        if size >= text_bytes:
            break
        documents.append(story)
        size += len(story)
    return documents
