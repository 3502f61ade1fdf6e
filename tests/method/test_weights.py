from oelm.method.weights import Role, Weight, layer_count


def test_layers_are_counted_from_the_table() -> None:
    def weight(layer: int | None) -> Weight:
        return Weight(name=str(layer), role=Role.VALUE, count=1, layer=layer)

    assert layer_count(()) == 0
    assert layer_count((weight(None),)) == 0
    assert layer_count((weight(0), weight(4), weight(None), weight(2))) == 5
