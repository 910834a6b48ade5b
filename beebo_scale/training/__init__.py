"""Training under Lightning: `module.SurrogateModule`, `data.ScreeningDataModule`, and what they are made of.

Nothing is imported here, so that `store` and `splits`, which know nothing of Lightning, stay quick to import.
"""
