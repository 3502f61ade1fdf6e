"""The plots of the built-in stories.

A plot is a list of acts, an act a list of sentences. What the first act says by name (who, which thing, where,
how many, which promise) is what the last act needs; the acts between it are where a reader could forget.
"""

from collections.abc import Callable

from oelm.data.story_words import (
    FLOWERS,
    KEEPSAKES,
    NUMBERS,
    ORDINALS,
    SEASONS,
    TIMES,
    TREATS,
    VISITED,
    WEATHERS,
    Dice,
    Person,
    article,
    counted,
    listed,
)

Acts = list[list[str]]
Plot = Callable[[Dice, Person, Person, str], Acts]
"""Dice, the hero, the hero's friend, and the village."""


def hidden(dice: Dice, hero: Person, friend: Person, town: str) -> Acts:
    """A thing is hidden, the place forgotten, and the friend who was told remembers."""
    thing, place, word = dice.thing(), dice.hiding_place(), dice.password()
    giver = dice.pick(["grandmother", "grandfather", "aunt", "uncle"])
    reason = dice.pick(
        [
            f"{hero.she} was afraid that thieves might come",
            f"{hero.hers} little brother broke everything",
            f"the roof leaked and {hero.she} wanted to keep it dry",
        ]
    )
    return [
        [
            f"One day {hero.hers} {giver} gave {hero.her} {article(thing)}.",
            f"Because {reason}, {hero.name} hid the {thing} {place}.",
            dice.pick(
                [
                    f'Only {friend.name} was told. "If you ever forget, say {word}," {friend.name} whispered.',
                    f'{hero.name} told nobody but {friend.name}, and they chose a secret name for it: "{word}".',
                ]
            ),
        ],
        [
            dice.pick(
                [
                    f"Then a long {dice.pick(SEASONS)} came, and {hero.name} thought of other things.",
                    f"Many weeks went by, and {hero.name} grew a little taller.",
                    f"That {dice.pick(SEASONS)} there was so much work that {hero.name} forgot all about it.",
                ]
            )
        ],
        [
            f'When {hero.hers} {giver} asked, "Where is the {thing}?" {hero.name} could not remember.',
            f'{hero.name} ran to {friend.name} and said, "{word.capitalize()}!"',
            f"{friend.name} laughed and led {hero.her} straight to the spot.",
            dice.pick(
                [
                    f"There, {place}, lay the {thing}, just as {hero.name} had left it.",
                    f"They looked {place}, and the {thing} was still there.",
                ]
            ),
        ],
    ]


def retraced(dice: Dice, hero: Person, friend: Person, town: str) -> Acts:
    """Three places are visited, a thing is lost on the way, and the way is walked again backwards."""
    thing = dice.thing()
    places = [dice.fresh(VISITED) for _ in range(3)]
    errands = dice.shuffled([f"bought {dice.pick(TREATS)}", f"talked to the {dice.fresh(['priest', 'mayor', 'guard'])}",
                             "rested for a while"])  # fmt: skip
    lost = dice.below(3)
    search = [
        f"At the {place} there was nothing." if step > lost else f"At the {place} {friend.name} saw something."
        for step, place in reversed(list(enumerate(places)))
        if step >= lost
    ]
    return [
        [
            f"{hero.name} owned {article(thing)} and carried it everywhere.",
            f"In the morning {hero.she} went to the {places[0]} and {errands[0]}.",
            f"After that {hero.she} went to the {places[1]} and {errands[1]}.",
            f"Last of all {hero.she} went to the {places[2]} and {errands[2]}.",
        ],
        [
            f"In the evening the {thing} was gone.",
            f'"Let us go back the way you came," said {friend.name}, "the last place first."',
        ],
        [
            *search,
            f"It was the {thing}! It lay where {hero.name} had {errands[lost]}.",
            dice.pick(
                [
                    f'"So I lost it at the {places[lost]}," said {hero.name}, "and not at the {places[lost - 1]}."',
                    f"From then on {hero.name} always held the {thing} tight at the {places[lost]}.",
                ]
            ),
        ],
    ]


def borrowed(dice: Dice, hero: Person, friend: Person, town: str) -> Acts:
    """A thing is borrowed against a promise, breaks, is mended, and goes home with the promised thanks."""
    thing, owner, mender = dice.thing(), dice.person(), dice.person()
    time, number, treats = dice.pick(TIMES), dice.between(2, 9), dice.fresh(TREATS)
    return [
        [
            f"{hero.name} needed {article(thing)}, and only {owner.name}, {owner.role}, had one.",
            f'"You may take it," said {owner.name}, "but bring it back before {time}."',
            f'"I promise," said {hero.name}, "and I will bring you {counted(number, treats)} too."',
        ],
        [
            dice.pick(
                [
                    f"On the way home {hero.name} slipped, and the {thing} broke.",
                    f"But {dice.pick(['a goat', 'the wind', 'a big dog'])} knocked the {thing} down, and it broke.",
                ]
            ),
            f"{friend.name} said that {mender.name}, {mender.role}, could mend anything.",
            f"{mender.name} worked all night and asked for nothing but a song.",
        ],
        [
            f"Just before {time}, {hero.name} knocked at {owner.name}'s door.",
            f'"Here is your {thing}, and here are the {NUMBERS[number]} {treats}," said {hero.name}.',
            dice.pick(
                [
                    f"{owner.name} could not see where it had been broken, but {hero.name} told the truth: "
                    f"{mender.name} had mended it.",
                    f'"It looks better than before," said {owner.name}. "That was {mender.name}," said {hero.name}.',
                ]
            ),
        ],
    ]


def traded(dice: Dice, hero: Person, friend: Person, town: str) -> Acts:
    """One thing is traded for another and another, and at the end the chain is told again."""
    things = [dice.thing() for _ in range(4)]
    people = [dice.person() for _ in range(3)]
    trades = [
        dice.pick(
            [
                f"{person.name}, {person.role}, gave {hero.her} {article(new)} for the {old}.",
                f"{hero.name} met {person.name}, {person.role}, and got {article(new)} in return for the {old}.",
                f"{person.name}, {person.role}, wanted the {old} and offered {article(new)} for it.",
            ]
        )
        for person, old, new in zip(people, things, things[1:], strict=False)
    ]
    asked = dice.below(3)
    return [
        [f"{hero.name} had nothing but {article(things[0])}.", *trades],
        [f'At home {friend.name} looked at the {things[3]}. "How did you come by it?"'],
        [
            f'"First I had the {things[0]}," said {hero.name}. '
            f'"{people[0].name} took it, and {people[1].name} took the {things[1]}, '
            f'and {people[2].name} took the {things[2]}."',
            f'"Who has the {things[asked]} now?" asked {friend.name}. '
            f'"{people[asked].name} has it," said {hero.name}, "and I have the {things[3]}."',
        ],
    ]


def counted_out(dice: Dice, hero: Person, friend: Person, town: str) -> Acts:
    """So many are picked, so many given away, and what is left adds up."""
    goods = dice.fresh(dice.pick([TREATS, KEEPSAKES]))
    other, given, gift = dice.person(), dice.between(2, 6), dice.between(1, 5)
    left = dice.between(1, 8)
    total = given + gift + left
    basket = dice.thing().split()[0] + " basket"
    return [
        [
            f"{hero.name} had {counted(total, goods)} in {article(basket)}.",
            f"{hero.she.capitalize()} gave {counted(given, goods)} to {friend.name}, who was hungry for company.",
            f"Then {hero.she} met {other.name}, {other.role}, and gave {other.her} {counted(gift, goods)}.",
        ],
        [
            f'"How many are left in the {basket}?" asked {friend.name}.',
            f"{hero.name} counted: {counted(left, goods)} of the {NUMBERS[total]}.",
        ],
        [
            f"{other.name} had been sad, and the {NUMBERS[gift]} made {other.her} smile.",
            dice.pick(
                [
                    f"{friend.name} gave {hero.her} the {NUMBERS[given]} back, "
                    f"and so the {basket} held {counted(left + given, goods)} again.",
                    f"In the evening {hero.name} and {friend.name} put theirs together "
                    f"and had {counted(left + given, goods)}.",
                ]
            ),
        ],
    ]


def message(dice: Dice, hero: Person, friend: Person, town: str) -> Acts:
    """Exact words are carried far and must be said again."""
    sender, receiver, word = dice.person(), dice.person(), dice.password()
    place, thing = dice.hiding_place(), dice.thing()
    words = f"the {thing} is {place}, and the word is {word}"
    return [
        [
            f'{sender.name}, {sender.role}, called {hero.name} and said, "Go to {receiver.name}, {receiver.role}."',
            f'"Say this: {words}. Do not change a single word."',
            f"{hero.name} said it over and over while {hero.she} walked.",
        ],
        [
            f"On the road {hero.she} met {friend.name}, who asked where {hero.she} was going.",
            f'"To {receiver.name}," said {hero.name}, "with a message from {sender.name}."',
        ],
        [
            dice.pick(
                [
                    f"At last {hero.name} stood before {receiver.name}, out of breath.",
                    f"{receiver.name} opened the door and waited.",
                ]
            ),
            f'"{words[0].upper()}{words[1:]}," said {hero.name}.',
            f'{receiver.name} looked {place}. "{word.capitalize()}!" {receiver.she} called, and took the {thing}.',
        ],
    ]


def three_hiders(dice: Dice, hero: Person, friend: Person, town: str) -> Acts:
    """Three children hide three things in three places; each must be found for its owner."""
    third = dice.person()
    game = [(child, dice.thing(), dice.hiding_place()) for child in (hero, friend, third)]
    hides = [
        dice.pick(
            [
                f"{child.name} hid {article(thing)} {place}.",
                f"{child.name} chose {article(thing)} and put it {place}.",
            ]
        )
        for child, thing, place in game
    ]
    finds = [
        dice.pick(
            [
                f"{place[0].upper()}{place[1:]} was the {thing}, and it went back to {child.name}.",
                f'"Whose {thing} is this?" It lay {place}, so it was {child.name}\'s.',
                f"The {thing} was {place}, so {child.name} got it back.",
            ]
        )
        for child, thing, place in dice.shuffled(game)
    ]
    return [
        [f"{listed([child.name for child, _, _ in game])} played a game.", *hides],
        [f"Then {dice.pick(WEATHERS)} came and they all ran inside until the next day."],
        ["In the morning they looked for everything.", *finds],
    ]


def mixed_up(dice: Dice, hero: Person, friend: Person, town: str) -> Acts:
    """Two things of one kind, two owners, and somebody who only knows by hearsay which is whose."""
    noun = dice.thing().split()[1]
    mine, yours = (
        dice.fresh(["red", "blue", "green", "yellow"]),
        dice.fresh(["white", "black", "brown", "grey"]),
    )
    inside = [dice.fresh(KEEPSAKES) for _ in range(2)]
    witness = dice.person()
    return [
        [
            f"{hero.name} had a {mine} {noun}, and {friend.name} had a {yours} {noun}.",
            f"{hero.name} kept {inside[0]} with the {mine} one; {friend.name} kept {inside[1]} with the {yours} one.",
            f"They told {witness.name}, {witness.role}, which was which.",
        ],
        [
            f"One night both were left {dice.hiding_place()}, "
            f"and in the dark {friend.name} took the {mine} {noun} by mistake."
        ],
        [
            f'"These are {inside[0]}, not {inside[1]}!" cried {friend.name}.',
            f'{witness.name} said, "{hero.name} told me that the {mine} {noun} is {hero.hers} own. '
            f'Yours is {yours}, {friend.name}."',
            f"So {hero.name} got back the {mine} {noun} with the {inside[0]}, "
            f"and {friend.name} the {yours} {noun} with the {inside[1]}.",
        ],
    ]


def grateful(dice: Dice, hero: Person, friend: Person, town: str) -> Acts:
    """An animal is helped with a thing, and comes back with that thing when help is needed."""
    animal, thing, place = (
        dice.pick(["fox", "hare", "crow", "goose", "badger", "otter", "goat"]),
        dice.thing(),
        "",
    )
    name, place = (
        dice.fresh(["Pip", "Bramble", "Tuft", "Moss", "Socks", "Pepper", "Button"]),
        dice.hiding_place(),
    )
    danger = dice.pick(["the fog was thick", "snow fell all night", "the river rose", "the path was washed away"])
    return [
        [
            f"One cold morning {hero.name} found a hurt {animal} {place}.",
            f"{hero.she.capitalize()} left {hero.hers} {thing} there to keep the {animal} safe, "
            f"and called the {animal} {name}.",
            f'"Giving away your {thing}!" said {friend.name}. "You will never see it again."',
        ],
        [f"But then {danger}, and {hero.name} lost {hero.hers} way far from {town}."],
        [
            f"Something moved. It was {name} the {animal}, and {name} was carrying the {thing}.",
            f"{name} led {hero.her} past the spot {place} and all the way home.",
            f'"I was wrong about the {thing}," said {friend.name}, "and I was wrong about {name}."',
        ],
    ]


def planted(dice: Dice, hero: Person, friend: Person, town: str) -> Acts:
    """Rows are sown for different people, and at the harvest each gets their own."""
    people = [friend, dice.person(), dice.person()]
    rows = [(person, dice.fresh(FLOWERS), dice.between(2, 9)) for person in people]
    sown = [
        f"In the {ORDINALS[place]} row {hero.she} sowed {crop} for {person.name}."
        for place, (person, crop, _) in enumerate(rows)
    ]
    asked = dice.below(3)
    cut = [
        f"{person.name} got {counted(number, crop)} from the {ORDINALS[rows.index((person, crop, number))]} row."
        for person, crop, number in dice.shuffled(rows)
    ]
    return [
        [f"{hero.name} dug three rows in the garden.", *sown],
        [
            f'"What grows in the {ORDINALS[asked]} row?" asked a stranger. "{rows[asked][1].capitalize()}, '
            f'for {rows[asked][0].name}," said {hero.name}.'
        ],
        ["At last it was time to cut them.", *cut],
    ]


PLOTS: tuple[Plot, ...] = (
    hidden,
    retraced,
    borrowed,
    traded,
    counted_out,
    message,
    three_hiders,
    mixed_up,
    grateful,
    planted,
)
