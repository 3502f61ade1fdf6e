"""The report as one self-contained page in English and Chinese, and as Markdown."""
